"""Runs as pages and explanations show them; NotFound outside their workspace."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.outbox import Accounting
from outrider.domain.rollouts import StepProgress
from outrider.domain.states import ItemStatus
from outrider.kernel.transactions import (
    accountings,
    campaigns,
    delivery_accountings,
    ledger_items,
    policy_holds,
    rollouts,
    run_jobs,
    run_records,
)
from outrider.kernel.transactions.accountings import Settlings
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.ledger_pages import LedgerPosition
from outrider.kernel.transactions.policy_holds import PolicyHold
from outrider.kernel.transactions.run_jobs import JobCount, JobLine, ReasonCount
from outrider.kernel.transactions.run_records import RunRecord
from outrider.ports.store import Transaction

THROUGHPUT_SECONDS_LEAST = 1.0


class Picture(NamedTuple):
    run: RunRecord
    accounting: Accounting
    jobs: list[JobCount]
    reasons: list[ReasonCount]
    held: list[PolicyHold]
    rollout: list[StepProgress]


class Throughput(NamedTuple):
    """What ended in each of a number of equal intervals of a run's time."""

    run_id: RunId
    begin: datetime
    bucket_seconds: float
    settlings: list[Settlings]
    unsettled_items: int


def picture(scope: Scope, run_id: RunId, *, reasons: bool = True) -> Transaction[Picture]:
    """Counting the reasons reads every item of the run."""
    run, accounting = yield from delivery_accountings.run_with_accounting(scope, run_id)
    jobs = yield from run_jobs.job_counts(run_id)
    counted = (yield from run_jobs.reason_counts(run_id)) if reasons else []
    held = (yield from policy_holds.of_runs([run_id])).get(run_id, [])
    rollout = yield from rollouts.of_run(run_id)
    return Picture(run, accounting, jobs, counted, held, rollout)


def page(
    scope: Scope, campaign_id: CampaignId, before: str, most: int
) -> Transaction[list[tuple[RunRecord, Accounting]]]:
    """Newest first."""
    yield from campaigns.campaign(scope, campaign_id)
    found = yield from run_records.runs_page(campaign_id, before, most)
    counted = yield from delivery_accountings.accountings_of(found)
    return [(run, counted[run.id]) for run in found]


def throughput(scope: Scope, run_id: RunId, buckets: int, now: datetime) -> Transaction[Throughput]:
    run = yield from run_records.run(scope, run_id)
    begin, end = run.started_at or run.created_at, run.finished_at or now
    each = max((end - begin).total_seconds(), THROUGHPUT_SECONDS_LEAST) / buckets
    found = yield from accountings.throughput(run.id, begin, each, buckets)
    settlings = [found.get(place, Settlings()) for place in range(buckets)]
    unsettled = yield from accountings.unsettled_items(run.id)
    return Throughput(run.id, begin, each, settlings, unsettled)


def jobs(scope: Scope, run_id: RunId, after: str, most: int) -> Transaction[list[JobLine]]:
    yield from run_records.run(scope, run_id)
    return (yield from run_jobs.jobs_page(run_id, after, most))


def items(
    scope: Scope,
    run_id: RunId,
    most: int,
    recipient_id: str | None,
    status: ItemStatus | None,
    after: LedgerPosition | None,
) -> Transaction[list[Item]]:
    yield from run_records.run(scope, run_id)
    return (
        yield from ledger_items.items_of_run(
            scope,
            run_id,
            most=most,
            recipient_id=recipient_id,
            status=status.value if status else None,
            after=after,
        )
    )
