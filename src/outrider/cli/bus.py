"""`outrider bus`: the sinks of run events, undelivered events, and delivering them again."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.api import cursors
from outrider.api.models.bus import AllRedriven, LetterAnswer, Redriven
from outrider.api.models.common import Page
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.domain.bus_queues import HISTORY
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.bus import Forgotten, SinkRecord
from outrider.kernel.transactions.paging import FIRST

app = typer.Typer(no_args_is_help=True, help="Event bus: sinks for run events, and dead letters.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Sink name, as listed by `outrider bus sinks`.")
]


@app.command()
def sinks(context: typer.Context, as_json: Json = False) -> None:
    """List the sinks, how many run events are waiting for each, and which process delivers them."""

    async def here(outrider: Outrider) -> Document:
        history = [] if outrider.settings.history is None else [HISTORY]
        configured = [*outrider.settings.bus, *history]
        found = await outrider.bus_keeper.sinks()
        return {"items": [_sink(each, each.name in configured) for each in found], "next": None}

    page = execute(context, here, as_json=as_json)
    if as_json:
        print_json(page)
        return
    print_rows(
        ["sink", "state", "waiting", "dead letters", "published", "failed", "relay"],
        [
            (each["name"], each["state"], each["waiting"], each["deadLetters"],
             each["published"], each["failed"], each["owner"])
            for each in page["items"]
        ],
        texts.Bus.NO_SINKS,
    )  # fmt: skip


@app.command(name="dead-letters")
def dead_letters(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Include those already redriven.")
    ] = False,
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """List run events that could not be delivered to a sink, oldest first."""

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
        ["dead letter", "sink", "run or item", "sequence", "event", "attempts", "error",
         "redriven"],
        [
            (each["id"], each["sink"], each["runId"] or each["outboxId"], each["runSeq"],
             each["eventType"], each["attempts"], each["error"], each["redrivenAt"])
            for each in page["items"]
        ],
        texts.Bus.NO_DEAD_LETTERS,
    )  # fmt: skip
    if page["next"]:
        out.print(texts.Bus.NEXT_PAGE.format(next=page["next"]), style="dim")


@app.command()
def redrive(
    context: typer.Context,
    letter_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID", help="Dead letter ID, as listed by `outrider bus dead-letters`."
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Redrive every dead letter.")] = False,
    as_json: Json = False,
) -> None:
    """Queue dead letters for delivery again, with a fresh set of attempts."""
    if (letter_id is None) is not everything:
        raise typer.BadParameter(texts.Bus.ONE_OR_ALL, param_hint="ID")

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
        out.print(texts.Bus.ALL_REDRIVEN.format(redriven=done["redriven"]))
    else:
        out.print(texts.Bus.REDRIVEN.format(id=done["id"], sink=escape(done["sink"])))


@app.command()
def resume(context: typer.Context, name: Name, as_json: Json = False) -> None:
    """Resume delivery to a sink that answered HTTP 410 (gone), starting with the oldest waiting
    event.
    """

    async def here(outrider: Outrider) -> None:
        await outrider.bus_keeper.resume(name, actor())

    execute(context, here, as_json=as_json)
    if as_json:
        print_json({"sink": name, "success": True})
    else:
        out.print(texts.Bus.RESUMED.format(name=escape(name)))


@app.command()
def forget(
    context: typer.Context,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a sink from the bus permanently, with its waiting events and dead letters."""
    if as_json and not yes:
        raise typer.BadParameter(texts.Bus.NEEDS_YES, param_hint="--yes")

    async def count(outrider: Outrider) -> SinkRecord | None:
        found = await outrider.bus_keeper.sinks()
        return next((each for each in found if each.name == name), None)

    async def here(outrider: Outrider) -> Forgotten:
        return await outrider.bus_keeper.forget(name, actor())

    if not yes:
        sink = execute(context, count, as_json=as_json)
        waiting, letters = (sink.waiting, sink.dead_letters) if sink else (0, 0)
        typer.confirm(
            texts.Bus.CONFIRM_FORGET.format(waiting=waiting, name=name, letters=letters),
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
        texts.Bus.FORGOTTEN.format(
            name=escape(name), waiting=forgotten.waiting, dead_letters=forgotten.dead_letters
        )
    )


def _sink(each: SinkRecord, configured: bool) -> Document:
    state = "disabled" if each.disabled_at else "active" if each.owner else "idle"
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
