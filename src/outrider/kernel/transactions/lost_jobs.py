"""Jobs that failed or lost their worker: rescued, backed off, and their open attempts taken
back."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from outrider.domain.ids import (
    Fence,
    JobId,
    OutboxId,
    RunId,
    Scope,
    WorkerId,
)
from outrider.domain.jobs import CANCELLED
from outrider.domain.retry import REST
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.claims import Claim, ClaimedJob
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, ask

JOBS_NAMED = 10
"""How many backed-off jobs an alert names."""


def fail(
    job: Claim, error: str, run_at: datetime, worker_id: WorkerId, ids: IdSource, now: datetime
) -> Transaction[bool]:
    rows = yield from ask(
        "fail_job", job_id=job.id, fence=job.fence, error=error, run_at=run_at, now=now
    )
    if rows:
        if rows[0][1] and isinstance(job, ClaimedJob):
            yield from _raise_rest_alert(job.run_id, job.scope, [job.id], error, ids, now)
        entry = AuditEntry(
            job.scope, "job.failed", worker_id, job.campaign_id, job.run_id, job.id,
            detail={"error": error, "attempts": job.attempts + 1},
        )  # fmt: skip
        yield from record([entry], ids, now)
    return bool(rows)


def rescue_expired(
    stale_before: datetime, worker_id: WorkerId, ids: IdSource, now: datetime
) -> Transaction[int]:
    rows = yield from ask("rescue_expired", stale_before=stale_before, now=now)
    if rows:
        # Their holder may be frozen rather than dead.
        window = {
            "id": [row[0] for row in rows],
            "fence": [row[5] for row in rows],
            "worker_id": [row[4].partition(": ")[2] for row in rows],
        }
        yield from ask("note_lost_leases", window, now=now)
    return (yield from _rescued(rows, worker_id, ids, now))


def release_lost(job: Claim) -> Transaction[None]:
    """The worker that lost the job is alive, and none of its calls is in progress any more: judging
    its items need not wait for it."""
    yield from ask("forget_lost_lease", job_id=job.id, fence=job.fence)


def lock_holders() -> Transaction[list[str]]:
    rows = yield from ask("lock_holders")
    return [row[0] for row in rows]


class HeldJob(NamedTuple):
    id: JobId
    run_id: RunId | None
    fence: Fence


def take_back_unbegun(worker_id: str, begun: Sequence[OutboxId], now: datetime) -> Transaction[int]:
    """Attempts that a dead worker had opened but not begun to call were never called."""
    taken = 0
    for row in (yield from ask("jobs_held_by", worker_id=worker_id)):
        job = HeldJob(*row)
        window = {"id": begun}
        known = {"job_id": job.id, "fence": job.fence, "now": now}
        if job.run_id is None:
            rows = yield from ask("take_back_unbegun_in_lane", window, **known)
        else:
            rows = yield from ask("take_back_unbegun", window, run_id=job.run_id, **known)
        taken += len(rows)
    return taken


def rescue_from(
    dead: Sequence[str], worker_id: WorkerId, ids: IdSource, now: datetime
) -> Transaction[int]:
    rows = yield from ask("rescue_from", {"locked_by": dead}, now=now)
    return (yield from _rescued(rows, worker_id, ids, now))


def _rescued(rows: Rows, worker_id: WorkerId, ids: IdSource, now: datetime) -> Transaction[int]:
    yield from record(
        [
            AuditEntry(
                Scope(tenant, workspace), "job.rescued", worker_id, run_id=run_id, job_id=job_id,
                detail={"why": why},
            )
            for job_id, run_id, tenant, workspace, why, *_ in rows
        ],
        ids,
        now,
    )  # fmt: skip
    yield from _put_to_rest(rows, ids, now)
    return len(rows)


def _raise_rest_alert(
    run_id: RunId, scope: Scope, job_ids: Sequence[JobId], why: str, ids: IdSource, now: datetime
) -> Transaction[None]:
    """Once for all jobs of a run."""
    message = (
        f"{len(job_ids)} jobs of the run keep losing their workers without making progress, and"
        f" wait longer before each attempt; the latest error: {why}"
    )
    detail = {"runId": run_id, "jobIds": job_ids[:JOBS_NAMED], "why": why}
    yield from raise_alert(Alert(scope, AlertCode.JOB_RESTS, run_id, message, detail), ids, now)


def resolve_rest_alert(run_id: RunId, now: datetime) -> Transaction[None]:
    """A backed-off job made progress; other stuck jobs of its run will raise the alert again."""
    yield from resolve_alert(AlertCode.JOB_RESTS, run_id, now)


def _put_to_rest(rows: Rows, ids: IdSource, now: datetime) -> Transaction[None]:
    """A worker died, which is no reason to give up members that the job has not called."""
    resting = [row for row in rows if row[1] is not None and row[6] >= 0]
    if not resting:
        return
    delays = [REST.delay_seconds(row[6] + 1, jitter=ids.jitter()) for row in resting]
    window = {
        "id": [row[0] for row in resting],
        "run_at": [now + timedelta(seconds=delay) for delay in delays],
    }
    yield from ask("rest_jobs", window, now=now)
    for run_id in sorted({row[1] for row in resting}):
        of_run = [row for row in resting if row[1] == run_id]
        scope, why = Scope(of_run[0][2], of_run[0][3]), of_run[0][4]
        yield from _raise_rest_alert(run_id, scope, [row[0] for row in of_run], why, ids, now)


def bury_left_waiting(reason: str, since: datetime, now: datetime) -> Transaction[int]:
    """End what still waits in jobs that were stopped (`cancelled`), or otherwise given up, and
    ended since then: no worker will process it."""
    rows = yield from ask(
        "bury_left_waiting", cancelled=reason == CANCELLED, reason=reason, since=since, now=now
    )
    return len(rows)


def forget_lost_leases(before: datetime, most: int) -> Transaction[int]:
    """Forget leases that were lost long ago, of jobs without doubts: whether their workers are
    alive no longer matters."""
    rows = yield from ask("forget_lost_leases", before=before, most=most)
    return len(rows)
