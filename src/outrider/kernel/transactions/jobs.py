"""Jobs as leases: extended, held, given back, and suspended by a pause or stop."""

from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from outrider.domain.ids import (
    JobId,
    OutboxId,
    RunId,
)
from outrider.domain.states import JobStatus
from outrider.kernel.transactions.claims import Claim, ClaimedJob, ClaimedLane
from outrider.ports.store import Transaction, ask, ask_alone


class JobState(NamedTuple):
    """The state of a job. `run_at` None: only a verdict or a new message can make it due."""

    status: JobStatus
    run_at: datetime | None
    paused: bool


class Hold(Enum):
    """Whether we may continue with a job. Suspended: it is ours, but its phase was paused or
    stopped, and no attempt may be opened."""

    OURS = "ours"
    SUSPENDED = "suspended"
    LOST = "lost"


def heartbeat(
    held: Sequence[Claim], lease_expires_at: datetime, now: datetime
) -> Transaction[set[JobId]]:
    """Extend the leases of all jobs at once; returns those that are still ours."""
    in_order = sorted(held, key=lambda job: job.id)
    rows = yield from ask(
        "heartbeat_jobs",
        {"id": [job.id for job in in_order], "fence": [job.fence for job in in_order]},
        lease_expires_at=lease_expires_at,
        now=now,
    )
    return {row[0] for row in rows}


def hold(job: Claim, lease_expires_at: datetime, now: datetime) -> Transaction[Hold]:
    """Inside another script: is the job ours, and does it stay ours until the commit?"""
    rows = yield from ask(
        "hold_job", job_id=job.id, fence=job.fence, lease_expires_at=lease_expires_at, now=now
    )
    if not rows:
        return Hold.LOST
    return Hold.SUSPENDED if rows[0][0] else Hold.OURS


def release(job: Claim, run_at: datetime, now: datetime) -> Transaction[bool]:
    """Give the job back unchanged, without using up an attempt."""
    rows = yield from ask("release_job", job_id=job.id, fence=job.fence, run_at=run_at, now=now)
    return bool(rows)


def give_back(
    job: Claim, begun: Sequence[OutboxId], run_at: datetime, now: datetime
) -> Transaction[bool]:
    """Give the job back after a failure that it did not cause. Attempts that it opened, in a commit
    whose answer was lost, and did not start to call were never called."""
    known = {"job_id": job.id, "fence": job.fence, "now": now}
    if isinstance(job, ClaimedLane):
        yield from ask("take_back_unbegun_in_lane", {"id": begun}, **known)
    elif isinstance(job, ClaimedJob):
        yield from ask("take_back_unbegun", {"id": begun}, run_id=job.run_id, **known)
    return (yield from release(job, run_at, now))


def suspensions(held: Sequence[Claim]) -> Transaction[dict[JobId, bool]]:
    """Whether each of these jobs was paused or stopped; lost ones are omitted."""
    rows = yield from ask_alone(
        "suspensions", {"id": [job.id for job in held], "fence": [job.fence for job in held]}
    )
    return {row[0]: bool(row[1]) for row in rows}


def see_suspensions(held: Sequence[Claim]) -> Transaction[None]:
    """Record that their worker knows, and begins no more calls for them."""
    in_order = sorted(held, key=lambda job: job.id)
    yield from ask_alone(
        "see_suspensions",
        {"id": [job.id for job in in_order], "fence": [job.fence for job in in_order]},
    )


def suspensions_unseen(run_id: RunId) -> Transaction[bool]:
    """Whether a worker holds a job of the run and may not know about its pause or stop yet."""
    rows = yield from ask_alone("suspensions_unseen", run_id=run_id)
    return bool(rows[0][0])


def job_state(job_id: JobId) -> Transaction[JobState | None]:
    rows = yield from ask("job_standing", job_id=job_id)
    if not rows:
        return None
    status, run_at, paused = rows[0]
    return JobState(JobStatus(status), run_at, bool(paused))


def requeue(now: datetime) -> Transaction[int]:
    """Failed jobs that are due again, and parked jobs whose last doubt was resolved."""
    failed = yield from ask("requeue_failed", now=now)
    woken = yield from ask("wake_resolved", now=now)
    return len(failed) + len(woken)


def work_is_left(until: datetime) -> Transaction[bool]:
    """Whether anything is due by then, or held by a worker now."""
    rows = yield from ask("work_is_left", until=until)
    return bool(rows[0][0])
