"""`outrider event`: record domain events, and see which messages followed."""

from typing import Annotated, Any

import msgspec
import typer

from outrider.api import cursors
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, err, out, print_json, print_rows, shown
from outrider.cli.documents import Document
from outrider.cli.event_lines import (
    EventTally,
    RefusedLine,
    Take,
    emit_lines,
    event_body,
    take_here,
    take_there,
)
from outrider.cli.line_files import opened_with_progress
from outrider.cli.remote import Remote
from outrider.cli.session import execute
from outrider.documents.emission import read_emission
from outrider.domain.emissions import Emission
from outrider.domain.errors import Conflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.workflows import AGENT, LEAD, PARTNER, EventStatus
from outrider.kernel.transactions.paging import LAST
from outrider.kernel.workflows.event_documents import event_document, whole_event_document

app = typer.Typer(
    no_args_is_help=True, help="Record domain events, and see which messages they caused."
)

Event = Annotated[str, typer.Argument(metavar="EVENT", help="Event ID, as given to `emit`.")]


def _party(name: str) -> Any:
    return typer.Option(f"--{name}", metavar="JSON", help=f"The {name}, as a JSON object.")


@app.command()
def emit(
    context: typer.Context,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", help="A JSON object, or one per line; - reads standard input."
        ),
    ] = None,
    trigger: Annotated[str | None, typer.Option(help="Kind of event, such as quote_sent.")] = None,
    event_id: Annotated[
        str | None, typer.Option(help="Your own event ID; repeating it is safe.")
    ] = None,
    lead: Annotated[str | None, _party(LEAD)] = None,
    partner: Annotated[str | None, _party(PARTNER)] = None,
    agent: Annotated[str | None, _party(AGENT)] = None,
    variables: Annotated[
        str | None, typer.Option(metavar="JSON", help="Variables for templates, as a JSON object.")
    ] = None,
    occurred_at: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="When it happened, such as 2026-12-01T09:00:00Z; default now."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Record one domain event from flags, or many from a file. Exits with 1 if any is refused."""
    flags = (trigger, event_id, lead, partner, agent, variables, occurred_at)
    if file is not None:
        if any(flag is not None for flag in flags):
            raise typer.BadParameter(texts.Event.FILE_OR_FLAGS, param_hint="FILE")
        _emit_file(context, file, as_json=as_json)
        return
    if trigger is None or event_id is None:
        raise typer.BadParameter(texts.Event.NO_EVENT_GIVEN, param_hint="FILE")
    fields = {"trigger": trigger, "eventId": event_id}
    parties = {LEAD: lead, PARTNER: partner, AGENT: agent}

    def emission() -> Emission:
        given: dict[str, object] = {
            **fields,
            "subject": {
                name: _object(name, text) for name, text in parties.items() if text is not None
            },
        }
        if variables is not None:
            given["variables"] = _object("variables", variables)
        if occurred_at is not None:
            given["occurredAt"] = occurred_at
        return read_emission(given)

    async def here(outrider: Outrider) -> Document:
        event, is_new = await outrider.event_intake.emit(DEFAULT_SCOPE, emission())
        return {**_plain(event_document(event)), "new": is_new}

    async def remote(server: Remote) -> Document:
        event, is_new = await server.post_once("events", json=event_body(emission()))
        return {**event, "new": is_new}

    event = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json({**event, "success": True})
        return
    how = "received" if event["new"] else texts.Event.KNOWN
    out.print(f"[green]{how}[/green] {shown(event_id)}")
    out.print(texts.Event.NEXT_WORK.format(event_id=shown(event_id)), style="dim")


@app.command()
def show(context: typer.Context, event_id: Event, as_json: Json = False) -> None:
    """Show an event, the decision for each channel and audience, and its messages."""

    async def here(outrider: Outrider) -> Document:
        event, items = await outrider.event_intake.event(DEFAULT_SCOPE, event_id)
        contents = await outrider.event_intake.contents(DEFAULT_SCOPE, event_id)
        return _plain(whole_event_document(event, contents, items))

    event = execute(
        context, here, as_json=as_json, remote=lambda server: server.get("events", event_id)
    )
    if as_json:
        print_json(event)
        return
    out.print(_headline(event))
    print_rows(
        ["channel", "audience", "decision", "sender", "messages", "reason"],
        [
            (each["channel"], each["audience"], each["decision"], each.get("sender"),
             each.get("items"), each.get("why"))
            for each in event["routes"]
        ],
        texts.Event.NO_ROUTES,
    )  # fmt: skip
    print_rows(
        ["item", "channel", "recipient", "address", "status", "attempts", "reason", "waiting for"],
        [
            (each["outboxId"], each["channel"], each["recipientId"], each["address"],
             each["status"], each["attempts"], each["reason"], each["waitsFor"])
            for each in event["items"]
        ],
        texts.Event.NO_MESSAGES.format(event_id=event_id),
    )  # fmt: skip


@app.command(name="list")
def list_events(
    context: typer.Context,
    status: Annotated[
        EventStatus | None, typer.Option(help="Show only events with this status.")
    ] = None,
    trigger: Annotated[str | None, typer.Option(help="Show only events with this trigger.")] = None,
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """List domain events, newest first."""

    async def here(outrider: Outrider) -> Document:
        found = await outrider.event_intake.page(
            DEFAULT_SCOPE, cursors.id_after(after, LAST), limit, status=status, trigger=trigger
        )
        following = cursors.encode(found[-1].id) if len(found) == limit else None
        return _plain({"items": [event_document(each) for each in found], "next": following})

    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get(
            "events", status=status, trigger=trigger, limit=limit, after=after
        ),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["event", "trigger", "status", "received", "error"],
        [
            (each["eventId"], each["trigger"], each["status"], each["createdAt"], each["error"])
            for each in page["items"]
        ],
        texts.Event.NONE,
    )
    if page["next"]:
        out.print(texts.Event.NEXT_PAGE.format(next=page["next"]), style="dim")


@app.command()
def explain(
    context: typer.Context,
    event_id: Event,
    recipient: Annotated[
        str | None, typer.Option(help="Limit to this address or recipient ID.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain why messages were or were not sent for an event."""

    async def here(outrider: Outrider) -> Document:
        found = await outrider.event_explainer.explain_whole(DEFAULT_SCOPE, event_id, recipient)
        blockers = [each.as_document() for each in found.blockers]
        return {"eventId": event_id, "sentences": found.sentences, "blockers": blockers}

    explanation = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("events", event_id, "explain", recipient=recipient),
    )
    if as_json:
        print_json(explanation)
        return
    for sentence in explanation["sentences"]:
        out.print(shown(sentence))


@app.command()
def reroute(context: typer.Context, event_id: Event, as_json: Json = False) -> None:
    """Process the failed parts of an event again, using the current rules."""

    async def here(outrider: Outrider) -> Document:
        if not await outrider.event_intake.reroute(DEFAULT_SCOPE, event_id):
            raise Conflict(texts.Event.NOTHING_FAILED.format(event_id=event_id))
        return {"eventId": event_id, "success": True}

    done = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.post("events", event_id, "reroute"),
    )
    if as_json:
        print_json(done)
    else:
        out.print(texts.Event.ROUTED_AGAIN.format(event_id=shown(event_id)))


def _emit_file(context: typer.Context, name: str, *, as_json: bool) -> None:
    def on_refused(refused: RefusedLine) -> None:
        if not as_json:
            err.print(texts.Event.REFUSED_LINE.format(refused=shown(str(refused))))

    async def emitted(take: Take) -> EventTally:
        with opened_with_progress(name, "events") as (file, on_read):
            return await emit_lines(file, take, on_refused, on_read)

    tally = execute(
        context,
        lambda outrider: emitted(lambda window: take_here(outrider, window)),
        as_json=as_json,
        remote=lambda server: emitted(lambda window: take_there(server, window)),
    )
    if as_json:
        print_json(tally.document())
    else:
        refused = (
            texts.Event.SOME_REFUSED.format(refused=len(tally.refused)) if tally.refused else ""
        )
        out.print(texts.Event.TALLY.format(new=tally.new, known=tally.known, refused=refused))
    if tally.refused:
        raise typer.Exit(1)


def _headline(event: Document) -> str:
    why = f": {shown(event['error'])}" if event["error"] else ""
    return (
        f"{shown(event['eventId'])}  {shown(event['trigger'])}  [bold]{event['status']}[/bold]{why}"
    )


def _object(name: str, text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(texts.Event.NOT_AN_OBJECT.format(name=name, error=error)) from error


def _plain(document: dict[str, object]) -> Document:
    """As it would come from a server, where some of it is already JSON."""
    return msgspec.json.decode(msgspec.json.encode(document), type=Document)
