"""`outrider run`: show, certificate, explain."""

from contextlib import suppress
from typing import Annotated

import typer
from rich.markup import escape

from outrider.api.models.runs import CertificateAnswer, Explanation, RunAnswer, RunExplanation
from outrider.bootstrap import Outrider
from outrider.cli import texts
from outrider.cli.console import (
    Json,
    accounting_of,
    delivery_terms,
    out,
    print_blockers,
    print_deliveries,
    print_json,
    print_rows,
)
from outrider.cli.documents import Document, document_of
from outrider.cli.phase_words import run_word, success_word
from outrider.cli.remote import Remote, RemoteRefusal
from outrider.cli.session import execute
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import NotFound
from outrider.domain.ids import DEFAULT_SCOPE, OutboxId, RunId
from outrider.kernel.reports.certifier import Certificate
from outrider.kernel.transactions import ledger_items, run_pictures, run_records
from outrider.limits.campaigns import MESSAGES_MAX

app = typer.Typer(no_args_is_help=True, help="Inspect, prove and explain a run.")

Id = Annotated[str, typer.Argument(metavar="RUN", help="Run ID.")]


@app.command()
def show(context: typer.Context, run_id: Id, as_json: Json = False) -> None:
    """Show a run's status, accounting and jobs, and why items were not sent."""

    async def here(outrider: Outrider) -> Document:
        picture = await outrider.store.read(run_pictures.picture(DEFAULT_SCOPE, RunId(run_id)))
        blockers = await outrider.blocker_finder.of_run(RunId(run_id))
        return document_of(RunAnswer.whole(*picture, blockers))

    run = execute(context, here, as_json=as_json, remote=lambda server: server.get("runs", run_id))
    if as_json:
        print_json(run)
        return
    heading = texts.Run.HEADING.format(
        run_id=run["runId"], status=run_word(run), phase=run["phase"]
    )
    out.print(f"{heading}, {run['channel']}" if run["phase"] == LAUNCH else heading)
    out.print(accounting_of(run["accounting"], success_word(run["phase"])))
    print_deliveries(run["accounting"])
    print_blockers(run["blockers"])
    print_rows(
        ["jobs", "status", "outcome", "lost attempts", "last error"],
        [
            (job["jobs"], job["status"], job["outcome"], job["attempts"], job["lastError"])
            for job in run["jobs"]
        ],
        texts.Run.NO_JOBS,
    )
    if run["reasons"]:
        print_rows(
            ["items", "status", "reason"],
            [(reason["items"], reason["status"], reason["reason"]) for reason in run["reasons"]],
            "",
        )


@app.command()
def certificate(context: typer.Context, run_id: Id, as_json: Json = False) -> None:
    """Show the launch certificate, counted from the ledger. Exits with 1 if it does not hold."""

    async def here(outrider: Outrider) -> Document:
        proof = await outrider.certifier.document(DEFAULT_SCOPE, RunId(run_id))
        return document_of(CertificateAnswer.model_validate(proof))

    proof = execute(
        context,
        here,
        as_json=as_json,
        remote=lambda server: server.get("runs", run_id, "certificate"),
    )
    if as_json:
        print_json(proof)
    else:
        print_certificate(proof)
    if not proof["holds"]:
        raise typer.Exit(1)


def certificate_document(proof: Certificate) -> Document:
    return document_of(CertificateAnswer.model_validate(proof.as_document()))


def print_certificate(proof: Document) -> None:
    verdict = texts.Run.HOLDS if proof["holds"] else texts.Run.DOES_NOT_HOLD
    out.print(texts.Run.CERTIFICATE.format(run_id=proof["runId"], verdict=verdict))
    for criterion in proof["criteria"]:
        mark = "[green]✓[/green]" if criterion["holds"] else "[red]✗[/red]"
        out.print(f"  {mark} {criterion['name'].replace('_', ' ')}: {escape(criterion['detail'])}")
    receipts = proof.get("receipts")
    if receipts and receipts["reported"]:
        reported = texts.Run.RECEIPTS.format(
            reported=receipts["reported"],
            sent=receipts["sent"],
            terms=delivery_terms(receipts["delivery"]),
        )
        out.print(reported, style="dim")
    for held in proof.get("held", []):
        waited_for = held["waitsFor"].replace("_", " ")
        line = texts.Run.HELD.format(items=held["items"], waited_for=waited_for)
        out.print(line, style="dim")
    out.print(texts.Run.LEDGER_DIGEST.format(ledger_digest=proof["ledgerDigest"]), style="dim")
    if not proof["holds"]:
        out.print(texts.Run.NEXT_RUN_EXPLAIN.format(run_id=proof["runId"]), style="dim")


@app.command()
def explain(
    context: typer.Context,
    run_id: Annotated[
        str, typer.Argument(metavar="RUN|ITEM", help="ID of a run or of a ledger item.")
    ],
    recipient: Annotated[
        str | None, typer.Option(help="Explain what happened to this recipient's items.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Explain a run's status, or why an item or recipient was or was not sent to."""

    async def here(outrider: Outrider) -> Document:
        if recipient is None:
            found = await outrider.store.read(
                ledger_items.whole_if_any(DEFAULT_SCOPE, OutboxId(run_id))
            )
            if found is not None:
                explained = await outrider.item_explainer.explain(DEFAULT_SCOPE, found)
                return document_of(Explanation.of(found.item, explained))
            sentences = await outrider.run_explainer.explain(DEFAULT_SCOPE, RunId(run_id))
            return document_of(RunExplanation(run_id=run_id, sentences=sentences))
        run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, RunId(run_id)))
        items = await outrider.store.read(
            ledger_items.whole_of_recipient(DEFAULT_SCOPE, run.id, recipient, MESSAGES_MAX)
        )
        if not items:
            raise _no_row(run_id, recipient, run.status)
        sentences = []
        for item in items:
            sentences += (await outrider.item_explainer.explain(DEFAULT_SCOPE, item)).sentences
        return {"runId": run_id, "sentences": sentences}

    async def remote(server: Remote) -> Document:
        if recipient is None:
            with suppress(RemoteRefusal):
                return await server.get("outbox", run_id, "explain")
            return await server.get("runs", run_id, "explain")
        return {"runId": run_id, "sentences": await _ask(server, run_id, recipient)}

    explanation = execute(context, here, as_json=as_json, remote=remote)
    if as_json:
        print_json({**explanation, "recipientId": recipient})
        return
    for sentence in explanation["sentences"]:
        out.print(escape(sentence))


async def _ask(server: Remote, run_id: str, recipient_id: str) -> list[str]:
    page = await server.get("runs", run_id, "outbox", recipientId=recipient_id, limit=MESSAGES_MAX)
    if not page["items"]:
        run = await server.get("runs", run_id)
        raise _no_row(run_id, recipient_id, run["status"])
    sentences: list[str] = []
    for item in page["items"]:
        explanation = await server.get("outbox", item["outboxId"], "explain")
        sentences += explanation["sentences"]
    return sentences


def _no_row(run_id: str, recipient_id: str, status: str) -> NotFound:
    return NotFound(
        texts.Run.NO_ROW.format(run_id=run_id, recipient_id=recipient_id),
        hint=texts.Run.NO_ROW_HINT.format(status=status),
    )
