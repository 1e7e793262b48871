"""Settling a job, and with the last job its run and its phase: all of it in one transaction.

Rows are locked in one order: job, run, phase.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from outrider.domain.ids import CampaignId, WorkerId
from outrider.domain.jobs import Completed, Parked, Settlement, Tally, Unfinished, settle
from outrider.domain.runs import PHASE_TRIGGER, RUN_TRIGGER, run_status
from outrider.domain.states import JOB_MACHINE, RUN_MACHINE, JobOutcome, JobStatus, RunStatus
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.jobs import ClaimedJob
from outrider.kernel.transactions.phases import transition_phase
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """Somebody else has the job now; nothing was written."""


def settle_job(
    job: ClaimedJob, worker_id: WorkerId, ids: IdSource, now: datetime
) -> Transaction[Settlement | LeaseLost]:
    locked = yield from ask("lock_job", job_id=job.id)
    status, fence, item_count, *_ = locked[0]
    if status != JobStatus.LOCKED or fence != job.fence:
        return LeaseLost()
    counted = yield from ask("tally_job", run_id=job.run_id, job_id=job.id)
    tally = Tally(item_count, *counted[0])
    settlement = settle(tally)
    entries: list[AuditEntry] = []
    match settlement:
        case Unfinished():
            return settlement
        case Parked(until):
            yield from ask("release_job", job_id=job.id, fence=job.fence, run_at=until, now=now)
            entries.append(_entry(job, worker_id, "job.parked", _numbers(tally)))
        case Completed(outcome):
            ended = _ended(job)
            yield from ask(
                "finish_job",
                job_id=job.id,
                status=ended.value,
                outcome=outcome.value,
                sent=tally.succeeded,
                failed=tally.failed,
                skipped=tally.skipped,
                now=now,
            )
            detail = {"outcome": outcome.value, **_numbers(tally)}
            entries.append(_entry(job, worker_id, f"job.{ended.value}", detail))
            entries += yield from _settle_run(job, worker_id, now)
        case other:
            assert_never(other)
    yield from record(entries, ids, now)
    return settlement


def _ended(job: ClaimedJob) -> JobStatus:
    if not job.is_exhausted:
        return JOB_MACHINE.after(JobStatus.LOCKED, "complete")
    return JOB_MACHINE.after(JOB_MACHINE.after(JobStatus.LOCKED, "fail"), "bury")


def _settle_run(
    job: ClaimedJob, worker_id: WorkerId, now: datetime
) -> Transaction[Sequence[AuditEntry]]:
    """If this was the run's last job, the run ends, and its phase with it."""
    locked = yield from ask("lock_run", run_id=job.run_id)
    status, campaign_id, phase = locked[0]
    unfinished = yield from ask("run_has_unfinished_jobs", run_id=job.run_id)
    if unfinished[0][0]:
        return []
    outcomes = yield from ask("run_outcomes", run_id=job.run_id)
    ended = run_status([JobOutcome(row[0]) for row in outcomes])
    assert RUN_MACHINE.after(RunStatus(status), RUN_TRIGGER[ended]) is ended
    yield from ask("finish_run", run_id=job.run_id, status=ended.value, now=now)
    yield from transition_phase(
        CampaignId(campaign_id),
        phase,
        PHASE_TRIGGER[ended],
        now,
        payload={"runId": job.run_id, "status": ended.value},
    )
    entry = AuditEntry(
        job.scope, "run.finished", worker_id, campaign_id, job.run_id,
        detail={"status": ended.value},
    )  # fmt: skip
    return [entry]


def _entry(
    job: ClaimedJob, worker_id: WorkerId, event: str, detail: dict[str, object]
) -> AuditEntry:
    return AuditEntry(
        job.scope, event, worker_id, job.campaign_id, job.run_id, job.id, detail=detail
    )


def _numbers(tally: Tally) -> dict[str, object]:
    return {
        "sent": tally.succeeded,
        "failed": tally.failed,
        "skipped": tally.skipped,
        "inDoubt": tally.in_doubt,
        "retrying": tally.retrying,
    }
