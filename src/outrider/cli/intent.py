"""`outrider intent`: submit a single message and see its outcome."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.markup import escape

from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import Json, out, print_json
from outrider.cli.documents import Document
from outrider.cli.remote import Remote
from outrider.cli.session import execute
from outrider.cli.work import working
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import Purpose
from outrider.domain.states import IntentStatus
from outrider.kernel.reports.item_explainer import explain_item
from outrider.kernel.submissions.submission_manager import Submission, intent_document
from outrider.kernel.transactions import ledger_items

app = typer.Typer(no_args_is_help=True, help="Submit single messages, and see their outcome.")

WATCH_SECONDS = 0.05


@app.command()
def submit(
    context: typer.Context,
    intent_id: Annotated[
        str, typer.Argument(metavar="INTENT", help="Your own ID; repeating it is safe.")
    ],
    target: Annotated[str, typer.Option(help="A submission target from the registry.")],
    payload: Annotated[
        str,
        typer.Option(
            help="The gateway's payload as a JSON object, or @FILE.", metavar="JSON|@FILE"
        ),
    ],
    topic: Annotated[
        str | None,
        typer.Option(help="Topic that the recipient can opt out of separately."),
    ] = None,
    transactional: Annotated[
        bool,
        typer.Option(
            "--transactional",
            help=(
                "Transactional: blocked only by opt-outs that include transactional "
                "messages, such as bounces, complaints and STOP."
            ),
        ),
    ] = False,
    here: Annotated[
        bool,
        typer.Option(
            "--work",
            help="Also run a worker here until the message has an outcome or is in doubt.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit one message. Outrider then delivers it within the target's contract."""

    async def local(outrider: Outrider) -> Document:
        text, purpose = _payload(payload), Purpose(topic, transactional)
        given = Submission(intent_id, target, msgspec.json.decode(text), text, purpose)
        _, is_new = await outrider.submissions.submit(DEFAULT_SCOPE, given)
        if here:
            async with working(outrider):
                await _settled(outrider, intent_id)
        intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
        contract = await outrider.submissions.contract_of(intent)
        return {**intent_document(intent, attempts, contract), "new": is_new}

    async def remote(server: Remote) -> Document:
        if here:
            raise InvalidInput(texts.Intent.WORK_IS_LOCAL, hint=texts.Intent.WORK_IS_LOCAL_HINT)
        given = {
            "intentId": intent_id, "submissionTarget": target,
            "payload": msgspec.Raw(_payload(payload).encode()),
            "topic": topic, "transactional": transactional,
        }  # fmt: skip
        intent, is_new = await server.post_once("intents", json=given)
        return {**intent, "new": is_new}

    intent = execute(context, local, as_json=as_json, remote=remote)
    if as_json:
        print_json({**intent, "success": True})
        return
    how = "submitted" if intent["new"] else texts.Intent.KNOWN
    out.print(f"[green]{how}[/green] {escape(intent_id)}")
    out.print(_line(intent))
    if not here and intent["new"]:
        out.print(texts.Intent.NEXT_WORK.format(intent_id=escape(intent_id)), style="dim")


@app.command()
def show(
    context: typer.Context,
    intent_id: Annotated[
        str, typer.Argument(metavar="INTENT", help="Intent ID, as given to `submit`.")
    ],
    as_json: Json = False,
) -> None:
    """Show an intent's status under its contract, and explain each attempt."""

    async def here(outrider: Outrider) -> tuple[Document, list[str]]:
        intent, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
        item = await outrider.store.read(ledger_items.item(DEFAULT_SCOPE, intent.outbox_id))
        contract = await outrider.submissions.contract_of(intent)
        late = await outrider.store.read(ledger_items.late_acceptances_of(item.id))
        return intent_document(intent, attempts, contract), explain_item(item, attempts, late)

    async def remote(server: Remote) -> tuple[Document, list[str]]:
        intent = await server.get("intents", intent_id)
        explanation = await server.get("outbox", intent["outboxId"], "explain")
        return intent, explanation["sentences"]

    intent, sentences = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json(intent)
        return
    out.print(_line(intent))
    for sentence in sentences:
        out.print(escape(sentence))


def _line(intent: Document) -> str:
    why = intent["finalOutcome"] or intent["exhaustedReason"]
    doubt = texts.Intent.IN_DOUBT if intent["inDoubt"] else ""
    return f"[bold]{intent['status']}[/bold]{f' ({why})' if why else ''}{doubt}"


def _payload(text: str) -> str:
    """Unchanged; the gateway reads it."""
    try:
        raw = Path(text[1:]).read_bytes() if text.startswith("@") else text.encode()
        msgspec.json.decode(raw, type=dict[str, Any])
        return raw.decode().strip()
    except OSError as error:
        raise InvalidInput(
            texts.Intent.CANNOT_BE_READ.format(text=text[1:], strerror=error.strerror)
        ) from error
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidInput(texts.Intent.NOT_AN_OBJECT.format(error=error)) from error


async def _settled(outrider: Outrider, intent_id: str) -> None:
    while True:
        intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
        if intent.status != IntentStatus.PENDING or intent.doubted_at is not None:
            return
        await asyncio.sleep(WATCH_SECONDS)
