"""Runs: listed, shown, explained and certified, with their jobs and their ledger items."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.common import Page
from outrider.api.models.items import ItemLine
from outrider.api.models.runs import (
    CertificateAnswer,
    JobAnswer,
    RunAnswer,
    RunExplanation,
    RunLine,
    ThroughputAnswer,
)
from outrider.api.route import api_router
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.outbox import Accounting
from outrider.domain.states import ItemStatus
from outrider.kernel.transactions import campaigns, inspection
from outrider.kernel.transactions.inspection import (
    FIRST,
    LAST,
    Item,
    JobCount,
    JobLine,
    LedgerPosition,
    ReasonCount,
    RunRecord,
    Settlings,
)
from outrider.limits.api import ApiLimits
from outrider.limits.campaigns import RECIPIENT_ID_MAX_CHARACTERS
from outrider.ports.store import Transaction

router = api_router("runs")

THROUGHPUT_BUCKETS = 60
THROUGHPUT_SECONDS_LEAST = 1.0

Picture = tuple[RunRecord, Accounting, list[JobCount], list[ReasonCount]]


@router.get(
    "/campaigns/{campaign_id}/runs",
    operation_id="listRuns",
    summary="List a campaign's runs with their accounting, newest first",
)
async def list_runs(
    campaign_id: str,
    outrider: Wired,
    asker: Asker,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[RunLine]:
    before = cursors.id_after(after, LAST)
    found = await outrider.store.read(_runs(asker.scope, CampaignId(campaign_id), before, limit))
    return Page(
        items=[RunLine.of(run, accounting) for run, accounting in found],
        next=cursors.encode(found[-1][0].id) if len(found) == limit else None,
    )


@router.get("/runs/{run_id}", operation_id="getRun", summary="Get a run with its accounting")
async def show(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    reasons: Annotated[
        bool, Query(description="Also count the items' reasons, which reads every item.")
    ] = True,
) -> RunAnswer:
    picture = await outrider.store.read(_picture(asker.scope, RunId(run_id), reasons=reasons))
    return RunAnswer.whole(*picture)


@router.get(
    "/runs/{run_id}/explain",
    operation_id="explainRun",
    summary="Explain a run's status",
)
async def explain(run_id: str, outrider: Wired, asker: Asker) -> RunExplanation:
    sentences = await outrider.run_explainer.explain(asker.scope, RunId(run_id))
    return RunExplanation(run_id=run_id, sentences=sentences)


@router.get(
    "/runs/{run_id}/certificate",
    operation_id="getCertificate",
    summary="Get the launch certificate, counted from the ledger",
)
async def certificate(run_id: str, outrider: Wired, asker: Asker) -> CertificateAnswer:
    proof = await outrider.certifier.certify(asker.scope, RunId(run_id))
    return CertificateAnswer.model_validate(proof.as_document())


@router.get(
    "/runs/{run_id}/throughput",
    operation_id="getThroughput",
    summary="Get a run's throughput over time",
)
async def throughput(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    buckets: Annotated[
        int, Query(ge=1, le=ApiLimits.throughput_buckets, description="Number of intervals.")
    ] = THROUGHPUT_BUCKETS,
) -> ThroughputAnswer:
    return await outrider.store.read(
        _throughput(asker.scope, RunId(run_id), buckets, outrider.clock.now())
    )


@router.get("/runs/{run_id}/jobs", operation_id="listJobs", summary="List a run's jobs")
async def list_jobs(
    run_id: str, outrider: Wired, asker: Asker, limit: Limit = PAGE_DEFAULT, after: After = None
) -> Page[JobAnswer]:
    begin = cursors.id_after(after, FIRST)
    lines = await outrider.store.read(_jobs(asker.scope, RunId(run_id), begin, limit))
    return Page(
        items=[JobAnswer.of(line, _decoded(line.result)) for line in lines],
        next=cursors.encode(lines[-1].id) if len(lines) == limit else None,
    )


@router.get("/runs/{run_id}/outbox", operation_id="listOutbox", summary="List a run's ledger items")
async def list_outbox(
    run_id: str,
    outrider: Wired,
    asker: Asker,
    status: Annotated[ItemStatus | None, Query(description="Only items with this status.")] = None,
    recipient_id: Annotated[
        str | None,
        Query(
            alias="recipientId",
            max_length=RECIPIENT_ID_MAX_CHARACTERS,
            pattern=r"^[^\x00-\x1f]+$",
            description="Only items of this recipient.",
        ),
    ] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[ItemLine]:
    begin = LedgerPosition(*cursors.decode_ids(after, 2)) if after is not None else None
    items = await outrider.store.read(
        _items(asker.scope, RunId(run_id), limit, recipient_id, status, begin)
    )
    last = items[-1] if len(items) == limit else None
    return Page(
        items=[ItemLine.of(item) for item in items],
        next=cursors.encode(last.job_id or FIRST, last.id) if last else None,
    )


def _runs(
    scope: Scope, campaign_id: CampaignId, before: str, most: int
) -> Transaction[list[tuple[RunRecord, Accounting]]]:
    yield from campaigns.campaign(scope, campaign_id)
    found = []
    for run in (yield from inspection.runs_page(campaign_id, before, most)):
        found.append((run, (yield from inspection.accounting(run))))
    return found


def _picture(scope: Scope, run_id: RunId, *, reasons: bool = True) -> Transaction[Picture]:
    run, accounting = yield from inspection.run_with_accounting(scope, run_id)
    jobs = yield from inspection.job_counts(run_id)
    counted = (yield from inspection.reason_counts(run_id)) if reasons else []
    return run, accounting, jobs, counted


def _throughput(
    scope: Scope, run_id: RunId, buckets: int, now: datetime
) -> Transaction[ThroughputAnswer]:
    run = yield from inspection.run(scope, run_id)
    begin, end = run.started_at or run.created_at, run.finished_at or now
    seconds = max((end - begin).total_seconds(), THROUGHPUT_SECONDS_LEAST)
    each = seconds / buckets
    found = yield from inspection.throughput(run.id, begin, each, buckets)
    return ThroughputAnswer.of(
        run.id,
        begin,
        each,
        [found.get(place, Settlings()) for place in range(buckets)],
        (yield from inspection.unsettled_items(run.id)),
    )


def _jobs(scope: Scope, run_id: RunId, after: str, most: int) -> Transaction[list[JobLine]]:
    yield from inspection.run(scope, run_id)
    return (yield from inspection.jobs_page(run_id, after, most))


def _items(
    scope: Scope,
    run_id: RunId,
    most: int,
    recipient_id: str | None,
    status: ItemStatus | None,
    after: LedgerPosition | None,
) -> Transaction[list[Item]]:
    yield from inspection.run(scope, run_id)
    return (
        yield from inspection.items_of_run(
            scope,
            run_id,
            most=most,
            recipient_id=recipient_id,
            status=status.value if status else None,
            after=after,
        )
    )


def _decoded(result: str | None) -> dict[str, Any] | None:
    return msgspec.json.decode(result, type=dict[str, Any]) if result else None
