"""`outrider person` and `outrider search`: one person's whole story, and whatever a text is of."""

from typing import Annotated, Any

import typer
from rich.markup import escape

from outrider.api.models.people import HitAnswer, SearchAnswer
from outrider.api.person_page import person_page
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, out, print_json, print_rows, shown
from outrider.cli.documents import Document, document_of
from outrider.cli.session import execute
from outrider.domain.ids import DEFAULT_SCOPE


def person(
    context: typer.Context,
    address: Annotated[
        str, typer.Argument(help="Email address, phone number, push token or recipient ID.")
    ],
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """Every message, event, opt-out and receipt of one person, newest first."""

    async def here(outrider: Outrider) -> Document:
        return document_of(await person_page(outrider, DEFAULT_SCOPE, address, limit, after))

    story = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("people", address, limit=limit, after=after),
    )
    if as_json:
        print_json(story)
        return
    _print_heading(story)
    print_rows(
        ["when", "what", "of", "state", "id"],
        [_row(each) for each in story["items"]],
        texts.Person.NOTHING.format(address=story["address"]),
    )
    if not story["complete"]:
        out.print(texts.Person.INCOMPLETE, style="yellow")
    if story["next"]:
        out.print(
            texts.Person.NEXT_PAGE.format(address=escape(address), next=story["next"]), style="dim"
        )


def search(
    context: typer.Context,
    words: Annotated[
        str,
        typer.Argument(
            help="An address, a recipient ID, a campaign's name or ID, a run, item, event or intent"
            " ID, a reference, or a provider's message ID."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Find people, campaigns, runs, items, events and intents by address, ID or name."""

    async def here(outrider: Outrider) -> Document:
        hits = await outrider.searcher.find(DEFAULT_SCOPE, words)
        return document_of(SearchAnswer(query=words, items=[HitAnswer.of(hit) for hit in hits]))

    found = execute(
        context, here, as_json=as_json, remote=lambda server: server.get("search", q=words)
    )
    if as_json:
        print_json(found)
        return
    print_rows(
        ["what", "name", "state", "since", "look at it with"],
        [
            (each["kind"], each["title"], each["detail"], _when(each["at"]), _command(each))
            for each in found["items"]
        ],
        texts.Person.NOT_FOUND.format(words=words),
    )


def _print_heading(story: Document) -> None:
    kind = story["kind"].replace("_", " ")
    out.print(f"[bold]{shown(story['address'])}[/bold] ({kind})")
    if story["recipientIds"]:
        out.print(texts.Person.RECIPIENTS.format(ids=shown(", ".join(story["recipientIds"]))))
    if story["addresses"]:
        others = ", ".join(each["address"] for each in story["addresses"])
        out.print(texts.Person.OTHERS.format(addresses=shown(others)))


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    when, kind = _when(entry["at"]), entry["kind"]
    match kind:
        case "item":
            item = entry["item"]
            of = item["campaignName"] or item["eventId"] or item["submissionTarget"]
            state = texts.Person.IN_DOUBT if item["inDoubt"] else item["status"]
            if item["reason"]:
                state = f"{state}: {item['reason']}"
            return when, f"{item['channel']} message", of, state, item["outboxId"]
        case "event":
            event = entry["event"]
            return when, kind, event["trigger"], event["status"], event["eventId"]
        case "receipt":
            receipt = entry["receipt"]
            return when, kind, receipt["submissionTarget"], receipt["event"], receipt["id"]
        case _:
            opted = entry["suppression"]
            of = opted["topic"] or texts.Person.EVERYTHING
            return when, "opt-out", f"{opted['channel']}, {of}", opted["source"], opted["address"]


def _when(at: str | None) -> str:
    return (at or "")[:19].replace("T", " ")


def _command(hit: Document) -> str:
    id = hit["id"]
    match hit["kind"]:
        case "person":
            return texts.Person.SHOW_PERSON.format(id=id)
        case "campaign":
            return texts.Person.SHOW_CAMPAIGN.format(id=id)
        case "run":
            return texts.Person.SHOW_RUN.format(id=id)
        case "item":
            return texts.Person.SHOW_ITEM.format(id=id)
        case "event":
            return texts.Person.SHOW_EVENT.format(id=id)
        case _:
            return texts.Person.SHOW_INTENT.format(id=id)
