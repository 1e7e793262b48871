"""`outrider run`: show, certificate, explain."""

from typing import Annotated

import typer
from rich.markup import escape

from outrider.bootstrap import Outrider
from outrider.cli.console import Json, accounting_line, out, print_json, print_rows
from outrider.cli.session import execute
from outrider.domain.errors import NotFound
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.times import rfc3339
from outrider.kernel.certifier import Certificate
from outrider.kernel.explainer import explain_item, explain_run
from outrider.kernel.transactions import inspection
from outrider.kernel.transactions.inspection import JobCount, ReasonCount, RunRecord
from outrider.ports.store import Transaction

app = typer.Typer(no_args_is_help=True, help="Inspect one run, prove it, and explain it.")

Id = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
Picture = tuple[RunRecord, Accounting, list[JobCount], list[ReasonCount]]


@app.command()
def show(context: typer.Context, run_id: Id, as_json: Json = False) -> None:
    """The run's status, its accounting, its jobs and the reasons of what was not sent."""
    run, accounting, jobs, reasons = execute(
        context, lambda outrider: outrider.store.read(_picture(RunId(run_id))), as_json=as_json
    )
    if as_json:
        print_json(
            {
                "runId": run.id,
                "campaignId": run.campaign_id,
                "phase": run.phase,
                "channel": run.channel,
                "status": run.status,
                "accounting": accounting.as_document(),
                "jobs": [count._asdict() for count in jobs],
                "reasons": [reason._asdict() for reason in reasons],
                "createdAt": rfc3339(run.created_at),
                "startedAt": rfc3339(run.started_at) if run.started_at else None,
                "finishedAt": rfc3339(run.finished_at) if run.finished_at else None,
            }
        )
        return
    out.print(f"run {run.id}  [bold]{run.status}[/bold]  {run.channel}")
    out.print(accounting_line(accounting))
    print_rows(
        ["jobs", "status", "outcome", "attempts lost", "last error"],
        [(job.jobs, job.status, job.outcome, job.attempts, job.last_error) for job in jobs],
        "no jobs",
    )
    if reasons:
        print_rows(
            ["items", "status", "reason"],
            [(reason.items, reason.status, reason.reason) for reason in reasons],
            "",
        )


@app.command()
def certificate(context: typer.Context, run_id: Id, as_json: Json = False) -> None:
    """The launch proof, counted from the ledger's rows. Exit 1 if it does not hold."""
    proof = execute(
        context,
        lambda outrider: outrider.certifier.certify(DEFAULT_SCOPE, RunId(run_id)),
        as_json=as_json,
    )
    if as_json:
        print_json(proof.as_document())
    else:
        print_certificate(proof)
    if not proof.holds:
        raise typer.Exit(1)


def print_certificate(proof: Certificate) -> None:
    verdict = (
        "[bold green]holds[/bold green]" if proof.holds else "[bold red]does not hold[/bold red]"
    )
    out.print(f"[bold]Launch certificate[/bold] of run {proof.run.id}: {verdict}")
    for criterion in proof.criteria:
        mark = "[green]✓[/green]" if criterion.holds else "[red]✗[/red]"
        out.print(f"  {mark} {criterion.name.replace('_', ' ')}: {escape(criterion.detail)}")
    out.print(f"  ledger digest {proof.digest}", style="dim")
    if not proof.holds:
        out.print(f"next: outrider run explain {proof.run.id}", style="dim")


@app.command()
def explain(
    context: typer.Context,
    run_id: Id,
    recipient: Annotated[
        str | None, typer.Option(help="Explain what happened to this recipient's items.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Why the run stands as it does, or why one recipient was (not) sent to, in sentences."""

    async def work(outrider: Outrider) -> list[str]:
        if recipient is None:
            run, accounting, jobs, reasons = await outrider.store.read(_picture(RunId(run_id)))
            return explain_run(run, accounting, jobs, reasons)
        return await outrider.store.read(
            _recipient(RunId(run_id), recipient, outrider.limits.page_items)
        )

    sentences = execute(context, work, as_json=as_json)
    if as_json:
        print_json({"runId": run_id, "recipientId": recipient, "sentences": sentences})
        return
    for sentence in sentences:
        out.print(escape(sentence))


def _picture(run_id: RunId) -> Transaction[Picture]:
    run, accounting = yield from inspection.run_with_accounting(DEFAULT_SCOPE, run_id)
    jobs = yield from inspection.job_counts(run_id)
    reasons = yield from inspection.reason_counts(run_id)
    return run, accounting, jobs, reasons


def _recipient(run_id: RunId, recipient_id: str, most: int) -> Transaction[list[str]]:
    run = yield from inspection.run(DEFAULT_SCOPE, run_id)
    items = yield from inspection.items_of_run(
        DEFAULT_SCOPE, run_id, recipient_id=recipient_id, most=most
    )
    if not items:
        raise NotFound(
            f"run {run_id} has no ledger row for recipient {recipient_id}",
            hint=f"the run is {run.status}: either it was not its turn yet, or the id is wrong",
        )
    sentences: list[str] = []
    for item in items:
        attempts = yield from inspection.attempts_of(item.id)
        sentences += explain_item(item, attempts)
    return sentences
