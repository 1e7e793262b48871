"""`outrider init`: a folder to start in, with settings, a registry and an example campaign."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from outrider.cli import texts
from outrider.cli.console import Json, err, fail, out, print_json, shown
from outrider.cli.session import refuse_server
from outrider.domain.errors import InvalidInput

STARTER = files("outrider.cli") / "starter"


def init(
    context: typer.Context,
    folder: Annotated[
        Path, typer.Argument(help="Where to write the files; created if it does not exist.")
    ] = Path(),
    as_json: Json = False,
) -> None:
    """Write settings, a registry and an example campaign to start with.

    outrider.toml has the settings, each with a comment; registry.json the submission targets, which
    point to the provider simulator; campaign.json and people.csv are an example campaign.
    GETTING-STARTED.md explains them and how to send it. Existing files are never overwritten.
    """
    refuse_server(context, as_json=as_json)
    try:
        written = write_starter(folder)
    except InvalidInput as error:
        fail(error, as_json=as_json)
    if as_json:
        print_json({"written": [str(path) for path in written], "success": True})
        return
    for path in written:
        out.print(texts.Init.WRITTEN.format(path=shown(str(path))))
    err.print(texts.Init.NEXT, style="dim")


def write_starter(folder: Path) -> list[Path]:
    """All of the files, or none if one of them exists."""
    contents = {folder / each.name: each.read_bytes() for each in STARTER.iterdir()}
    existing = [path.name for path in contents if path.exists()]
    if existing:
        raise InvalidInput(
            texts.Init.EXISTS.format(names=", ".join(sorted(existing))), hint=texts.Init.EXISTS_HINT
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in contents.items():
            # "x": a file that appeared meanwhile is not overwritten either.
            with path.open("xb") as file:
                file.write(content)
    except OSError as error:
        raise InvalidInput(
            texts.Init.UNWRITABLE.format(folder=folder, reason=error.strerror)
        ) from error
    return sorted(contents)
