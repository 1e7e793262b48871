"""`outrider recovery`: a database that was restored or promoted, and its release."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json
from outrider.cli.session import actor, execute
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.recovery import Quarantine

app = typer.Typer(
    no_args_is_help=True,
    help="A restored or promoted database sends nothing until it is released.",
)


@app.command()
def status(context: typer.Context, as_json: Json = False) -> None:
    """Say whether the database is in quarantine, since when and why."""

    async def here(outrider: Outrider) -> Quarantine | None:
        return await outrider.database_releaser.quarantine()

    found = execute(context, here, as_json=as_json)
    if as_json:
        shown = None if found is None else {"reason": found.reason, "since": rfc3339(found.since)}
        print_json({"quarantine": shown, "success": True})
    elif found is None:
        out.print(texts.Recovery.NONE)
    else:
        since = rfc3339(found.since)
        out.print(texts.Recovery.QUARANTINE.format(since=since, reason=escape(found.reason)))


@app.command()
def release(
    context: typer.Context,
    nothing_lost: Annotated[
        bool,
        typer.Option(
            "--nothing-lost",
            help="It has everything that was done (a clean move, a synchronous replica).",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Work with this database from now on.

    Whatever was due may have been sent since the backup: it is asked again where the provider
    recognises repeats, looked up where it can be, and left to a person otherwise.
    """

    async def here(outrider: Outrider) -> None:
        await outrider.database_releaser.release(actor(), nothing_lost=nothing_lost)

    execute(context, here, as_json=as_json)
    if as_json:
        print_json({"released": True, "nothingLost": nothing_lost, "success": True})
    else:
        out.print(texts.Recovery.TRUSTED if nothing_lost else texts.Recovery.RELEASED)
