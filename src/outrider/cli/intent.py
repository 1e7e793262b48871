"""`outrider intent`: submit a single message and see its outcome."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.markup import escape

from outrider.api import cursors
from outrider.api.models.common import Page
from outrider.api.models.intents import IntentLineAnswer
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import (
    After,
    Json,
    Most,
    attempt_words,
    err,
    out,
    print_json,
    print_rows,
    shown,
)
from outrider.cli.documents import Document, document_of
from outrider.cli.line_files import opened_with_progress
from outrider.cli.remote import Remote
from outrider.cli.session import actor, execute
from outrider.cli.work import working
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.purposes import Purpose
from outrider.domain.states import IntentStatus
from outrider.kernel.submissions.intent_documents import intent_document
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items
from outrider.kernel.transactions.paging import LAST

if TYPE_CHECKING:
    from outrider.cli.intent_lines import IntentTally, Take

app = typer.Typer(no_args_is_help=True, help="Submit single messages, and see their outcome.")

WATCH_SECONDS = 0.05


@app.command()
def submit(
    context: typer.Context,
    intent_id: Annotated[
        str | None, typer.Argument(metavar="INTENT", help="Your own ID; repeating it is safe.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="A submission target from the registry.")
    ] = None,
    payload: Annotated[
        str | None,
        typer.Option(
            help="The gateway's payload as a JSON object, or @FILE.", metavar="JSON|@FILE"
        ),
    ] = None,
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
    callback_url: Annotated[
        str | None,
        typer.Option(
            help="Receives its outcome, signed with the secret of `outrider key callback-secret`.",
            metavar="URL",
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="The recipient's, such as Europe/Amsterdam: quiet hours follow it."),
    ] = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help="Submit many: a file with one intent per line, each as in `POST /intents`; - is"
            " standard input.",
            metavar="FILE",
        ),
    ] = None,
    here: Annotated[
        bool,
        typer.Option(
            "--work",
            help="Also run a worker here until the message has an outcome or is in doubt.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit messages. Outrider then delivers each within its target's contract."""
    if batch is not None:
        if here or any(
            each is not None for each in (intent_id, target, payload, callback_url, time_zone)
        ):
            raise typer.BadParameter(texts.Intent.BATCH_ALONE, param_hint="--batch")
        _submit_file(context, batch, as_json=as_json)
        return
    if intent_id is None or target is None or payload is None:
        raise typer.BadParameter(texts.Intent.ONE_OR_BATCH, param_hint="INTENT")
    _submit_one(
        context, intent_id, target, payload, Purpose(topic, transactional), callback_url, time_zone,
        here=here, as_json=as_json,
    )  # fmt: skip


def _submit_one(
    context: typer.Context,
    intent_id: str,
    target: str,
    payload: str,
    purpose: Purpose,
    callback_url: str | None,
    time_zone: str | None,
    *,
    here: bool,
    as_json: bool,
) -> None:
    async def local(outrider: Outrider) -> Document:
        text = _payload(payload)
        document = msgspec.json.decode(text)
        given = Submission(intent_id, target, document, text, purpose, callback_url, time_zone)
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
            "topic": purpose.topic, "transactional": purpose.transactional,
            "callbackUrl": callback_url, "timeZone": time_zone,
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


def _submit_file(context: typer.Context, name: str, *, as_json: bool) -> None:
    # It loads the web framework, which `--help` and the other commands do without.
    from outrider.cli.intent_lines import refusal_text, submit_lines, take_here, take_there

    def on_refused(refused: Document) -> None:
        if not as_json:
            err.print(texts.Intent.NOT_SUBMITTED.format(problem=shown(refusal_text(refused))))

    async def submitted(take: "Take") -> "IntentTally":
        with opened_with_progress(name, "intents") as (file, on_read):
            return await submit_lines(file, take, on_refused, on_read)

    tally = execute(
        context,
        lambda outrider: submitted(lambda window: take_here(outrider, window)),
        as_json=as_json,
        remote=lambda server: submitted(lambda window: take_there(server, window)),
    )
    if as_json:
        print_json(tally.document())
    else:
        out.print(texts.Intent.SUBMITTED.format(new=tally.new, known=tally.known))
        if tally.refused:
            out.print(texts.Intent.REFUSED.format(refused=len(tally.refused)))
    if tally.refused:
        raise typer.Exit(1)


@app.command(name="list")
def list_intents(
    context: typer.Context,
    status: Annotated[
        IntentStatus | None, typer.Option(help="Only intents with this status.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Only intents for this submission target.")
    ] = None,
    limit: Most = 100,
    after: After = None,
    as_json: Json = False,
) -> None:
    """List the intents of the workspace, newest first."""

    async def here(outrider: Outrider) -> Document:
        begin = cursors.id_after(after, LAST)
        lines, end = await outrider.submissions.page(
            DEFAULT_SCOPE, begin, limit, status=status, submission_target=target
        )
        items = [IntentLineAnswer.of(line) for line in lines]
        return document_of(Page(items=items, next=None if end is None else cursors.encode(end)))

    page = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get(
            "intents", status=status, submissionTarget=target, limit=limit, after=after
        ),
    )
    if as_json:
        print_json(page)
        return
    print_rows(
        ["intent", "target", "status", "why", "attempts", "submitted"],
        [
            (each["intentId"], each["submissionTarget"],
             texts.Console.IN_DOUBT if each["inDoubt"] else each["status"],
             each["finalOutcome"] or each["exhaustedReason"] or each["reason"],
             attempt_words(each), each["createdAt"])
            for each in page["items"]
        ],
        texts.Intent.NONE,
    )  # fmt: skip
    if page["next"]:
        out.print(texts.Intent.NEXT_PAGE.format(next=page["next"]), style="dim")


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
        contract = await outrider.submissions.contract_of(intent)
        whole = await outrider.store.read(ledger_items.whole(DEFAULT_SCOPE, intent.outbox_id))
        explained = await outrider.item_explainer.explain(DEFAULT_SCOPE, whole)
        links = await outrider.intent_resubmitter.links(intent)
        document = intent_document(intent, attempts, contract, links=links)
        document["blockers"] = [each.as_document() for each in explained.blockers]
        return document, explained.sentences

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


@app.command()
def resubmit(
    context: typer.Context,
    intent_id: Annotated[
        str, typer.Argument(metavar="INTENT", help="ID of an exhausted or rejected intent.")
    ],
    as_json: Json = False,
) -> None:
    """Send an exhausted or rejected intent after all, as a new intent that is linked to it."""

    async def here(outrider: Outrider) -> Document:
        new, is_new = await outrider.intent_resubmitter.resubmit(DEFAULT_SCOPE, intent_id, actor())
        contract = await outrider.submissions.contract_of(new)
        links = await outrider.intent_resubmitter.links(new)
        return {**intent_document(new, [], contract, links=links), "new": is_new}

    async def remote(server: Remote) -> Document:
        intent, is_new = await server.post_once("intents", intent_id, "resubmit", json={})
        return {**intent, "new": is_new}

    intent = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json({**intent, "success": True})
        return
    new_id, old_id = escape(intent["intentId"]), escape(intent_id)
    if intent["new"]:
        out.print(texts.Intent.RESUBMITTED.format(intent_id=old_id, new_id=new_id))
    else:
        out.print(texts.Intent.RESUBMITTED_BEFORE.format(intent_id=old_id, new_id=new_id))


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
