"""One command's run: settings from flags, environment and file; a loop; errors as answers."""

import asyncio
import getpass
import tomllib
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import typer
import uvloop
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from outrider.bootstrap import Outrider, open_outrider
from outrider.cli import texts
from outrider.cli.console import fail
from outrider.cli.remote import Remote, open_remote
from outrider.domain.errors import InvalidInput, OutriderError, Problem
from outrider.domain.setting_names import CONTRACT_NAMES, OTHER_VARIABLES, PREFIX, did_you_mean
from outrider.settings import Settings, setting_names
from outrider.system import raise_handle_limit
from outrider.telemetry import configure_logging

Answer = TypeVar("Answer")


def settings_of(context: typer.Context) -> Settings:
    """The root command's flags win over the environment and `outrider.toml`."""
    flags: dict[str, Any] = context.obj or {}
    try:
        given = {name: value for name, value in flags.items() if value is not None}
        # Which server a command calls is not a setting.
        given.pop("server", None)
        return Settings(**given)
    except ValidationError as error:
        problems = [_setting_problem(each) for each in error.errors()]
        raise InvalidInput(texts.Session.INVALID, problems) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise InvalidInput(
            texts.Session.UNREADABLE.format(error=error),
            hint=texts.Session.UNREADABLE_HINT,
        ) from error


def _setting_problem(error: ErrorDetails) -> Problem:
    """Settings are named by their variable, those of a target by their path in the file."""
    if error["type"] == "extra_forbidden":
        return _unknown_setting([str(step) for step in error["loc"]])
    name, *inside = (str(step) for step in error["loc"] or ("settings",))
    message = error["msg"].removeprefix("Value error, ")
    if not inside:
        return Problem(f"OUTRIDER_{name.upper()}", message)
    if "match pattern" in message and inside[-1] != "[key]":
        message = texts.Session.NOT_A_REFERENCE
    return Problem(f"outrider.toml: {name}.{'.'.join(inside)}", message)


def _unknown_setting(place: list[str]) -> Problem:
    *tables, name = place
    if name.upper().startswith(PREFIX):
        known = (f"{PREFIX}{each.upper()}" for each in Settings.model_fields)
        return Problem(
            name,
            texts.Session.NOT_SETTING.format(
                suggestion=did_you_mean(name, [*known, *OTHER_VARIABLES])
            ),
        )
    known_here = setting_names(tables[0]) if tables else [*Settings.model_fields, *CONTRACT_NAMES]
    path = f"outrider.toml: {'.'.join(place)}"
    return Problem(
        path, texts.Session.NOT_SETTING.format(suggestion=did_you_mean(name, known_here))
    )


def actor() -> str:
    """The actor, for the audit log."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"


def refuse_server(context: typer.Context, *, as_json: bool) -> None:
    """For commands that do not use `execute`: warns that `--server` is ignored."""
    if (context.obj or {}).get("server") is not None:
        fail(_cannot_be_asked(context), as_json=as_json)


def _cannot_be_asked(context: typer.Context) -> InvalidInput:
    return InvalidInput(
        texts.Session.LOCAL_ONLY.format(command_path=context.command_path),
        hint=texts.Session.LOCAL_ONLY_HINT,
    )


def execute(
    context: typer.Context,
    work: Callable[[Outrider], Awaitable[Answer]],
    *,
    as_json: bool,
    schema: bool = True,
    remote: Callable[[Remote], Awaitable[Answer]] | None = None,
) -> Answer:
    """Run `work` on a wired Outrider whose schema fits, and turn its errors into an exit.

    With `--server`, `remote` is run instead, for commands that have one.
    """
    server: str | None = (context.obj or {}).get("server")

    async def run(settings: Settings) -> Answer:
        if server is not None:
            if remote is None:
                raise _cannot_be_asked(context)
            async with open_remote(server) as opened:
                return await remote(opened)
        async with open_outrider(settings) as outrider:
            if schema:
                await outrider.store.verify_schema()
                await outrider.set_clock()
                await outrider.bus_keeper.register()
            return await work(outrider)

    try:
        settings = settings_of(context)
        configure_logging(settings.log)
        raise_handle_limit()
        return uvloop.run(run(settings))
    except OutriderError as error:
        fail(error, as_json=as_json)
    except BaseExceptionGroup as group:
        # A worker beside the command wraps what either of them raised.
        failure = group.subgroup(OutriderError)
        if failure is None:
            raise
        fail(_first(failure), as_json=as_json)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(130) from None


def _first(group: BaseExceptionGroup[OutriderError]) -> OutriderError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
