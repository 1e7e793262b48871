"""`outrider bus`: who hears of run events, what they could not be told, and telling it again."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.api import cursors
from outrider.api.models.bus import AllRedriven, LetterAnswer, Redriven
from outrider.api.models.common import Page
from outrider.bootstrap import Outrider
from outrider.cli.console import After, Json, Most, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.times import rfc3339
from outrider.kernel.bus.bus_keeper import Forgotten
from outrider.kernel.transactions.bus import SinkRecord
from outrider.kernel.transactions.inspection import FIRST

app = typer.Typer(
    no_args_is_help=True, help="Sinks of the event bus, and events they could not be told."
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="As `outrider bus sinks` shows it.")]


@app.command()
def sinks(context: typer.Context, as_json: Json = False) -> None:
    """Who hears of run events, how many wait for each, and who tells them now."""

    async def here(outrider: Outrider) -> Document:
        configured = outrider.settings.bus
        found = await outrider.bus_keeper.sinks()
        return {"items": [_sink(each, each.name in configured) for each in found], "next": None}

    page = execute(context, here, as_json=as_json)
    if as_json:
        print_json(page)
        return
    print_rows(
        ["sink", "state", "waiting", "dead letters", "published", "failed", "told by"],
        [
            (each["name"], each["state"], each["waiting"], each["deadLetters"],
             each["published"], each["failed"], each["owner"])
            for each in page["items"]
        ],
        "nobody hears of run events; docs/event-bus.md says how to set OUTRIDER_BUS",
    )  # fmt: skip


@app.command(name="dead-letters")
def dead_letters(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that were redriven.")
    ] = False,
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """Events that a sink could not be told, oldest first."""

    async def here(outrider: Outrider) -> Document:
        begin = cursors.id_after(after, FIRST)
        found = await outrider.bus_keeper.letters(
            DEFAULT_SCOPE, begin, limit, only_waiting=not everything
        )
        page = Page(
            items=[LetterAnswer.of(letter) for letter in found],
            next=cursors.encode(found[-1].id) if len(found) == limit else None,
        )
        return document_of(page)

    waiting = None if everything else "true"
    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get(
            "bus", "dead-letters", waiting=waiting, limit=limit, after=after
        ),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["letter", "sink", "run or item", "sequence", "event", "attempts", "error", "redriven"],
        [
            (each["id"], each["sink"], each["runId"] or each["outboxId"], each["runSeq"],
             each["eventType"], each["attempts"], each["error"], each["redrivenAt"])
            for each in page["items"]
        ],
        "everything could be told",
    )  # fmt: skip
    if page["next"]:
        out.print(f"next: outrider bus dead-letters --after {page['next']}", style="dim")


@app.command()
def redrive(
    context: typer.Context,
    letter_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="As `outrider bus dead-letters` shows it.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up on.")] = False,
    as_json: Json = False,
) -> None:
    """Have dead letters told again, as if never tried."""
    if (letter_id is None) is not everything:
        raise typer.BadParameter("name one dead letter, or say --all", param_hint="ID")

    async def here(outrider: Outrider) -> Document:
        keeper = outrider.bus_keeper
        if letter_id is None:
            count = await keeper.redrive_all(DEFAULT_SCOPE, actor())
            return document_of(AllRedriven(redriven=count))
        sink = await keeper.redrive(DEFAULT_SCOPE, letter_id, actor())
        return document_of(Redriven(id=letter_id, sink=sink))

    async def remote(server: Remote) -> Document:
        named = () if letter_id is None else (letter_id,)
        return await server.post("bus", "dead-letters", *named, "redrive")

    done = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(done)
    elif letter_id is None:
        out.print(f"{done['redriven']:,} dead letters are told again")
    else:
        out.print(f"[green]redriven[/green] {done['id']}: {escape(done['sink'])} is told again")


@app.command()
def resume(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Tell a sink again that had said it is gone (HTTP 410); what waits for it is told first."""

    async def here(outrider: Outrider) -> None:
        await outrider.bus_keeper.resume(name, actor())

    execute(context, here, as_json=as_json)
    if as_json:
        print_json({"sink": name, "success": True})
    else:
        out.print(f"[green]resumed[/green] {escape(name)}")


@app.command()
def forget(
    context: typer.Context,
    name: Name,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask; say how many events are dropped.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take a sink off the bus for good, with what waits for it and its dead letters."""
    if as_json and not yes:
        raise typer.BadParameter("nobody can be asked with --json: say --yes", param_hint="--yes")

    async def count(outrider: Outrider) -> SinkRecord | None:
        found = await outrider.bus_keeper.sinks()
        return next((each for each in found if each.name == name), None)

    async def here(outrider: Outrider) -> Forgotten:
        return await outrider.bus_keeper.forget(name, actor())

    if not yes:
        sink = execute(context, count, as_json=as_json)
        waiting, letters = (sink.waiting, sink.dead_letters) if sink else (0, 0)
        typer.confirm(
            f"{waiting:,} events wait for '{name}' and {letters:,} are dead letters of it;"
            " all are dropped. Forget it?",
            abort=True,
        )
    forgotten = execute(context, here, as_json=as_json)
    if as_json:
        print_json(
            {"sink": name, "waiting": forgotten.waiting, "deadLetters": forgotten.dead_letters,
             "success": True}
        )  # fmt: skip
        return
    out.print(
        f"[green]forgotten[/green] {escape(name)}: {forgotten.waiting:,} waiting events and"
        f" {forgotten.dead_letters:,} dead letters were dropped"
    )


def _sink(each: SinkRecord, configured: bool) -> Document:
    state = "disabled" if each.disabled_at else "told" if each.owner else "idle"
    return {
        "name": each.name,
        "state": state,
        "configured": configured,
        "waiting": each.waiting,
        "deadLetters": each.dead_letters,
        "published": each.published,
        "failed": each.failed,
        "owner": each.owner,
        "disabledAt": rfc3339(each.disabled_at) if each.disabled_at else None,
        "disabledWhy": each.disabled_why,
        "createdAt": rfc3339(each.created_at),
    }
