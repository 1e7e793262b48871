"""`outrider campaign`: create, start, status, watch, list."""

from pathlib import Path
from typing import Annotated

import typer

from outrider.bootstrap import Outrider
from outrider.cli.console import Json, accounting_line, out, print_json, print_rows
from outrider.cli.session import actor, execute
from outrider.cli.watching import progress_bar, watch
from outrider.cli.work import working
from outrider.documents.campaign import parse_campaign
from outrider.domain.errors import Conflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.times import rfc3339
from outrider.kernel.transactions import campaigns, inspection
from outrider.kernel.transactions.campaigns import CampaignRecord, PhaseRecord
from outrider.kernel.transactions.inspection import LAST, RunRecord
from outrider.ports.store import Transaction
from outrider.rendering.renderer import check_template

app = typer.Typer(no_args_is_help=True, help="Create campaigns, start them, see how they stand.")

Id = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="The campaign's id.")]
State = tuple[CampaignRecord, list[PhaseRecord], list[tuple[RunRecord, Accounting]]]


@app.command()
def create(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="The campaign as JSON; see examples/campaign.json.")],
    as_json: Json = False,
) -> None:
    """Create a campaign from FILE: all of it, or nothing and every mistake in it."""

    async def work(outrider: Outrider) -> tuple[CampaignId, int]:
        try:
            raw = file.read_bytes()
        except OSError as error:
            raise InvalidInput(f"{file} cannot be read: {error.strerror}") from error
        document = parse_campaign(raw, check_template=check_template, source_root=file.parent)
        with progress_bar() as progress:
            task = progress.add_task("importing recipients", total=None, note="")
            return await outrider.deployer.create(
                DEFAULT_SCOPE,
                document.definition,
                document.recipients(),
                actor(),
                lambda imported: progress.update(task, completed=imported),
            )

    campaign_id, size = execute(context, work, as_json=as_json)
    if as_json:
        print_json({"campaignId": campaign_id, "recipients": size, "success": True})
    else:
        out.print(f"[green]created[/green] {campaign_id} with {size:,} recipients")
        out.print(f"next: outrider campaign start {campaign_id} --work", style="dim")


@app.command()
def start(
    context: typer.Context,
    campaign_id: Id,
    here: Annotated[
        bool, typer.Option("--work", help="Also work here until the launch has ended.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start the launch: a run of queued jobs that any worker takes up."""

    async def work(outrider: Outrider) -> tuple[RunId, int, Accounting | None]:
        run_id, intended = await outrider.deployer.deploy(
            DEFAULT_SCOPE, CampaignId(campaign_id), actor()
        )
        if not as_json:
            # At once: whoever interrupts the work below needs to know what goes on without them.
            out.print(f"[green]started[/green] run {run_id}: {intended:,} items")
        if not here:
            return run_id, intended, None
        async with working(outrider):
            _, accounting = await watch(outrider, run_id, "sending")
        return run_id, intended, accounting

    run_id, intended, accounting = execute(context, work, as_json=as_json)
    if as_json:
        print_json(
            {
                "campaignId": campaign_id,
                "runId": run_id,
                "intended": intended,
                "accounting": accounting.as_document() if accounting else None,
                "success": True,
            }
        )
        return
    if accounting is None:
        out.print(f"next: outrider work, and outrider campaign watch {campaign_id}", style="dim")
        return
    out.print(accounting_line(accounting))
    step = f"doubts list --run {run_id}" if accounting.in_doubt else f"run certificate {run_id}"
    out.print(f"next: outrider {step}", style="dim")


@app.command()
def status(context: typer.Context, campaign_id: Id, as_json: Json = False) -> None:
    """Where the campaign stands: its phases, and its runs with their accounting."""
    record, phases, runs = execute(
        context, lambda outrider: outrider.store.read(_state(campaign_id)), as_json=as_json
    )
    if as_json:
        print_json(_document(record, phases, runs))
        return
    out.print(f"[bold]{record.name}[/bold]  {record.audience_size:,} recipients")
    print_rows(["phase", "state"], [(phase.phase, phase.state) for phase in phases], "no phases")
    for run, accounting in runs:
        out.print(f"run {run.id}  [bold]{run.status}[/bold]")
        out.print(f"  {accounting_line(accounting)}")
    if not runs:
        out.print(f"next: outrider campaign start {campaign_id} --work", style="dim")


@app.command(name="watch")
def watch_command(context: typer.Context, campaign_id: Id, as_json: Json = False) -> None:
    """Follow the latest run until it ends, or until only in-doubt items keep it open."""

    async def work(outrider: Outrider) -> tuple[RunRecord, Accounting]:
        record, _, runs = await outrider.store.read(_state(campaign_id))
        if not runs:
            raise Conflict(
                f"campaign {campaign_id} was not started",
                hint=f"outrider campaign start {campaign_id}",
            )
        return await watch(outrider, runs[-1][0].id, record.name)

    run, accounting = execute(context, work, as_json=as_json)
    if as_json:
        print_json({"runId": run.id, "status": run.status, "accounting": accounting.as_document()})
        return
    out.print(f"run {run.id}  [bold]{run.status}[/bold]")
    out.print(accounting_line(accounting))
    if accounting.in_doubt:
        out.print(f"next: outrider doubts list --run {run.id}", style="dim")


@app.command(name="list")
def list_campaigns(
    context: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 100,
    as_json: Json = False,
) -> None:
    """The newest campaigns."""
    lines = execute(
        context,
        lambda outrider: outrider.store.read(campaigns.campaigns_page(DEFAULT_SCOPE, LAST, limit)),
        as_json=as_json,
    )
    if as_json:
        items = [
            {
                "campaignId": line.id,
                "name": line.name,
                "recipients": line.audience_size,
                "launch": line.launch_state,
                "createdAt": rfc3339(line.created_at),
            }
            for line in lines
        ]
        print_json({"items": items, "next": lines[-1].id if len(lines) == limit else None})
        return
    print_rows(
        ["campaign", "name", "recipients", "launch", "created"],
        [
            (line.id, line.name, f"{line.audience_size:,}", line.launch_state,
             f"{line.created_at:%Y-%m-%d %H:%M}")
            for line in lines
        ],
        "no campaigns yet; next: outrider campaign create FILE",
    )  # fmt: skip


def _state(campaign_id: str) -> Transaction[State]:
    record = yield from campaigns.campaign(DEFAULT_SCOPE, CampaignId(campaign_id))
    phases = yield from campaigns.phases_of(record.id)
    runs = []
    for run in (yield from inspection.runs_of(record.id)):
        runs.append((run, (yield from inspection.accounting(run))))
    return record, phases, runs


def _document(
    record: CampaignRecord,
    phases: list[PhaseRecord],
    runs: list[tuple[RunRecord, Accounting]],
) -> dict[str, object]:
    return {
        "campaignId": record.id,
        "name": record.name,
        "recipients": record.audience_size,
        "lastSequence": record.last_sequence,
        "phases": {phase.phase: {"state": phase.state, "runId": phase.run_id} for phase in phases},
        "runs": [
            {"runId": run.id, "status": run.status, "accounting": accounting.as_document()}
            for run, accounting in runs
        ],
    }
