"""Commands that are imported on first use, so that `outrider` only loads what it runs."""

from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


class LazyGroup(TyperGroup):
    """A name maps to `module:attribute`, which is a command's function or a group of commands."""

    places: ClassVar[dict[str, str]] = {}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click passes it
        return list(self.places)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in self.places and cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name, self.places[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.places:
            # A misspelt command gets suggestions.
            for name in self.places:
                self.get_command(ctx, name)
        return super().resolve_command(ctx, args)


def _load(name: str, place: str) -> TyperCommand | TyperGroup:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    holder = typer.Typer()
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    command = get_group(holder).commands[name]
    assert isinstance(command, TyperCommand | TyperGroup)
    return command
