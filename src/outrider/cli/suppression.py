"""`outrider suppression`: who has opted out of what, and the source of each opt-out."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.api.suppression_lines import suppressions_page
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import After, Json, Most, out, print_json, print_rows
from outrider.cli.documents import Document, document_of
from outrider.cli.remote import Remote
from outrider.cli.session import execute
from outrider.documents.addresses import normalised
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import TOPIC_RULE, is_topic
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut, SuppressionSource

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Opt-outs: addresses that must not be contacted.\n\nAn opt-out covers a whole "
        "channel or a single topic. Transactional messages are blocked only by a bounce, "
        "a complaint, a STOP, or --include-transactional."
    ),
)

ACTOR = "cli"

OnChannel = Annotated[Channel, typer.Argument(help="Channel of the addresses.")]
Addresses = Annotated[
    list[str], typer.Argument(help="Email addresses, phone numbers or push tokens.")
]
Topic = Annotated[
    str | None, typer.Option(help="Only this topic; by default everything on the channel.")
]


@app.command("list")
def list_(
    context: typer.Context, limit: Most = 100, after: After = None, as_json: Json = False
) -> None:
    """List opt-outs."""

    async def here(outrider: Outrider) -> Document:
        return document_of(await suppressions_page(outrider, DEFAULT_SCOPE, limit, after))

    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("suppressions", limit=limit, after=after),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["channel", "address", "topic", "source", "transactional", "since", "reason", "evidence"],
        [
            (each["channel"], each["address"], each["topic"] or "everything", each["source"],
             texts.Suppression.ALSO_BLOCKED if each["includesTransactional"] else "",
             each["createdAt"][:19].replace("T", " "), each["reason"], each["evidence"])
            for each in page["items"]
        ],
        texts.Suppression.NONE,
    )  # fmt: skip
    if page["next"]:
        out.print(texts.Suppression.NEXT_PAGE.format(next=page["next"]), style="dim")


@app.command()
def add(
    context: typer.Context,
    channel: OnChannel,
    addresses: Addresses,
    topic: Topic = None,
    reason: Annotated[str, typer.Option(help="A short reason.")] = "opted_out",
    source: Annotated[
        SuppressionSource,
        typer.Option(
            help=(
                "Where it came from; bounce, complaint and stop block transactional messages too."
            )
        ),
    ] = SuppressionSource.API,
    evidence: Annotated[str | None, typer.Option(help="Evidence, for later reference.")] = None,
    include_transactional: Annotated[
        bool, typer.Option("--include-transactional", help="Block transactional messages too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Opt addresses out of a channel or topic. Pending messages to them are skipped."""

    async def here(outrider: Outrider) -> Document:
        _check(topic)
        found = normalised(channel, addresses)
        opt_out = OptOut(reason, source, evidence, topic, include_transactional)
        await outrider.suppression_keeper.add(DEFAULT_SCOPE, channel.value, found, opt_out, ACTOR)
        return {"channel": channel.value, "addresses": len(found), "success": True}

    async def remote(server: Remote) -> Document:
        body = {
            "channel": channel.value, "addresses": addresses, "reason": reason, "topic": topic,
            "source": source.value, "evidence": evidence,
            "includeTransactional": include_transactional,
        }  # fmt: skip
        return await server.post("suppressions", json=body)

    done = execute(context, here, as_json=as_json, remote=remote)
    _tell(done, texts.Suppression.OPTED_OUT, topic, as_json=as_json)


@app.command()
def remove(
    context: typer.Context,
    channel: OnChannel,
    address: Annotated[str, typer.Argument(help="Address to remove from the opt-outs.")],
    topic: Annotated[
        str | None, typer.Option(help="Only this topic; by default everything on the channel.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Remove an opt-out. Only do this with the recipient's consent."""

    async def here(outrider: Outrider) -> Document:
        _check(topic)
        found = normalised(channel, [address])
        removed = await outrider.suppression_keeper.remove(
            DEFAULT_SCOPE, channel.value, found, ACTOR, topic
        )
        return {"channel": channel.value, "addresses": removed, "success": True}

    done = execute(
        context, here, as_json=as_json,
        remote=lambda server: server.delete(
            "suppressions", channel=channel.value, address=address, topic=topic
        ),
    )  # fmt: skip
    _tell(done, texts.Suppression.LIFTED, topic, as_json=as_json)


def _check(topic: str | None) -> None:
    if topic is not None and not is_topic(topic):
        raise InvalidInput(texts.Suppression.NOT_A_TOPIC, [Problem("topic", TOPIC_RULE)])


def _tell(done: Document, what: str, topic: str | None, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    of = texts.Suppression.TOPIC.format(topic=escape(topic)) if topic else ""
    out.print(f"{done['addresses']} {what} ({done['channel']}{of})")
