"""Jobs as leases: claim with a higher fence, keep alive, give back, rescue from the dead."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from outrider.domain.ids import (
    AssetId,
    CampaignId,
    Fence,
    JobId,
    OutboxId,
    RunId,
    Scope,
    TenantId,
    WorkerId,
    WorkspaceId,
)
from outrider.domain.jobs import CANCELLED
from outrider.domain.retry import REST
from outrider.domain.run_events import RunEventType
from outrider.domain.states import JobStatus
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.run_log import EventDraft
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, Window, ask, ask_alone


class ClaimedJob(NamedTuple):
    """A job that is ours until its lease runs out or somebody takes a higher fence."""

    id: JobId
    tenant_id: TenantId
    workspace_id: WorkspaceId
    campaign_id: CampaignId
    run_id: RunId
    asset_id: AssetId
    contract_id: int
    fallback_contract_id: int | None
    first_position: int
    last_position: int
    item_count: int
    attempts: int
    max_attempts: int
    fence: Fence
    scheduled_for: datetime
    cancelled: bool
    retry_of: RunId | None
    retry_job_id: JobId | None
    logical_attempt: int
    plan_version: str
    lease_expires_at: datetime
    """As it was claimed; heartbeats move it."""
    queue_group: str
    losses: int = 0
    """How often in a row it was lost without any of its items having ended."""

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)

    @property
    def is_exhausted(self) -> bool:
        return self.attempts >= self.max_attempts

    @property
    def was_held_before(self) -> bool:
        return self.fence > 1


class ClaimedLane(NamedTuple):
    """The standing job that delivers the single messages of one submission target."""

    id: JobId
    tenant_id: TenantId
    workspace_id: WorkspaceId
    submission_target: str
    mode: str
    fence: Fence
    attempts: int
    lease_expires_at: datetime

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)

    @property
    def losses(self) -> int:
        """Whoever gives a lane back has ended what was due: its attempts count from there."""
        return self.attempts

    @property
    def queue_group(self) -> str:
        """Lanes wait in no group."""
        return ""

    @property
    def campaign_id(self) -> None:
        return None

    @property
    def run_id(self) -> None:
        return None


class ClaimedPhaseJob(NamedTuple):
    """A job of a phase that a handler processes; it has no items in the ledger."""

    id: JobId
    tenant_id: TenantId
    workspace_id: WorkspaceId
    campaign_id: CampaignId
    run_id: RunId
    phase: str
    item_count: int
    attempts: int
    max_attempts: int
    fence: Fence
    cancelled: bool
    detail: str
    logical_attempt: int
    plan_version: str
    queue_group: str

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)

    @property
    def losses(self) -> int:
        return self.attempts

    @property
    def is_exhausted(self) -> bool:
        return self.attempts >= self.max_attempts


Claim = ClaimedJob | ClaimedLane | ClaimedPhaseJob


class Claimer(NamedTuple):
    """Who claims, until when, and under which name the engine knows a run that begins by it."""

    worker_id: WorkerId
    lease_expires_at: datetime
    reference: Callable[[TenantId, RunId], str]
    ids: IdSource


class JobState(NamedTuple):
    """How a job stands. `run_at` None: only a verdict or a new message can make it due."""

    status: JobStatus
    run_at: datetime | None
    paused: bool


class Hold(Enum):
    """Whether a job is ours to go on with. Suspended: it is, but its phase was paused or stopped,
    and no attempt may be opened."""

    OURS = "ours"
    SUSPENDED = "suspended"
    LOST = "lost"


class QueueGroup(NamedTuple):
    """Jobs of one mode, workspace and target; `run_at` is when the first of them is due. Those of
    runs that were stopped are a group of their own."""

    name: str
    run_at: datetime | None

    @property
    def submission_target(self) -> str | None:
        return None if self.is_cancelled else self.name.split("/", 2)[2]

    @property
    def mode(self) -> str:
        return self.name.split("/", 1)[0]

    @property
    def is_cancelled(self) -> bool:
        return self.name == CANCELLED_GROUP


CANCELLED_GROUP = "cancelled"
JOBS_TOLD = 10
"""Of jobs that rest, so many are named in an alert."""


def queue_groups(after: str, most: int) -> Transaction[list[QueueGroup]]:
    """The groups that have jobs waiting, in the order of their names."""
    rows = yield from ask_alone("queue_groups", after=after, most=most)
    return [QueueGroup(*row) for row in rows]


def claim(claimer: Claimer, wanted: Mapping[str, int], now: datetime) -> Transaction[list[Claim]]:
    """Of each named group lock so many due jobs, the oldest first."""
    locked: list[Sequence[object]] = []
    for name, most in wanted.items():
        rows = yield from ask(
            "claim_jobs",
            queue_group=name,
            worker_id=claimer.worker_id,
            most=most,
            lease_expires_at=claimer.lease_expires_at,
            now=now,
        )
        locked += [(False, row[0]) for row in rows]
    return (yield from _claimed(locked, claimer, now))


class LaneTargets(NamedTuple):
    """Whose lanes are wanted, by JSON lists: only of these targets, and of none that are closed."""

    targets: str | None = None
    closed: str = "[]"


def claim_lanes(
    claimer: Claimer, mode: str, of: LaneTargets, most: int, now: datetime
) -> Transaction[list[Claim]]:
    """Lock the lanes of a mode that have been due for longest. They have no run to set going, so
    this is one statement, and a single message does not wait for more."""
    rows = yield from ask_alone(
        "claim_lanes",
        worker_id=claimer.worker_id,
        mode=mode,
        **of._asdict(),
        most=most,
        lease_expires_at=claimer.lease_expires_at,
        now=now,
    )
    return [ClaimedLane(*row) for row in rows]


def claim_given(claimer: Claimer, job_id: JobId, now: datetime) -> Transaction[list[Claim]]:
    """Lock this job; nothing where it is not due, or somebody has it."""
    locked = yield from ask(
        "claim_given_job",
        job_id=job_id,
        worker_id=claimer.worker_id,
        lease_expires_at=claimer.lease_expires_at,
        now=now,
    )
    return (yield from _claimed(locked, claimer, now))


def _claimed(locked: Rows, claimer: Claimer, now: datetime) -> Transaction[list[Claim]]:
    """The first lock of a run sets it running. A lane has no run, and is known from its lock."""
    claimed: list[Claim] = [ClaimedLane(*row[1:]) for row in locked if row[0]]
    of_runs = len(locked) - len(claimed)
    if not of_runs:
        return claimed
    window = {"id": [row[1] for row in locked if not row[0]]}
    rows = yield from ask("claimed_jobs", window)
    of_phases = of_runs - len(rows)
    claimed += [ClaimedJob(*row) for *row, _ in rows]
    if of_phases or any(starts for *_, starts in rows):
        yield from _start_runs(window, claimer, now)
    if of_phases:
        rows = yield from ask("claimed_phase_jobs", window)
        claimed += [ClaimedPhaseJob(*row) for row in rows]
    return claimed


def next_lanes_due(of: LaneTargets) -> Transaction[dict[str, datetime]]:
    """Of each mode, when the next lane is due that nobody holds, or since when one is."""
    rows = yield from ask_alone("next_lanes_due", **of._asdict())
    return {mode: run_at for mode, run_at in rows if run_at is not None}


def _start_runs(window: Window, claimer: Claimer, now: datetime) -> Transaction[None]:
    entries = []
    for run_id, version, campaign_id, tenant, workspace in (
        yield from ask("lock_runs_to_start", window)
    ):
        worker_id = claimer.worker_id
        yield from start_run(run_id, version, worker_id, claimer.reference(tenant, run_id), now)
        scope = Scope(tenant, workspace)
        entries.append(AuditEntry(scope, "run.started", worker_id, campaign_id, run_id))
    yield from record(entries, claimer.ids, now)


def start_run(
    run_id: RunId, version: str, by: str, reference: str, now: datetime
) -> Transaction[None]:
    """The run's row is locked by whoever asks."""
    payload = {"engineRunRef": reference, "startedBy": by}
    draft = EventDraft(RunEventType.RUN_STARTED, payload=payload)
    appended = yield from run_log.append(run_id, version, [draft], now)
    yield from ask("start_run", run_id=run_id, status_seq=appended[-1].run_seq, now=now)


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
    """Give the job back untouched, without using up an attempt."""
    rows = yield from ask("release_job", job_id=job.id, fence=job.fence, run_at=run_at, now=now)
    return bool(rows)


def give_back(
    job: Claim, begun: Sequence[OutboxId], run_at: datetime, now: datetime
) -> Transaction[bool]:
    """Give the job back after trouble that was not its own. What it had opened, by a commit whose
    answer was lost, and not begun to call was never called."""
    known = {"job_id": job.id, "fence": job.fence, "now": now}
    if isinstance(job, ClaimedLane):
        yield from ask("take_back_unbegun_in_lane", {"id": begun}, **known)
    elif isinstance(job, ClaimedJob):
        yield from ask("take_back_unbegun", {"id": begun}, run_id=job.run_id, **known)
    return (yield from release(job, run_at, now))


def fail(
    job: Claim, error: str, run_at: datetime, worker_id: WorkerId, ids: IdSource, now: datetime
) -> Transaction[bool]:
    rows = yield from ask(
        "fail_job", job_id=job.id, fence=job.fence, error=error, run_at=run_at, now=now
    )
    if rows:
        if rows[0][1] and isinstance(job, ClaimedJob):
            yield from _tell_of_rest(job.run_id, job.scope, [job.id], error, ids, now)
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
        # Whoever held them may be frozen, and not dead.
        window = {
            "id": [row[0] for row in rows],
            "fence": [row[5] for row in rows],
            "worker_id": [row[4].partition(": ")[2] for row in rows],
        }
        yield from ask("note_lost_leases", window, now=now)
    return (yield from _rescued(rows, worker_id, ids, now))


def let_go_of_lost(job: Claim) -> Transaction[None]:
    """Whoever lost the job lives, and none of its calls is out any more: nobody need wait for it
    before judging them."""
    yield from ask("forget_lost_lease", job_id=job.id, fence=job.fence)


def lock_holders() -> Transaction[list[str]]:
    rows = yield from ask("lock_holders")
    return [row[0] for row in rows]


class HeldJob(NamedTuple):
    id: JobId
    run_id: RunId | None
    fence: Fence


def take_back_unbegun(worker_id: str, begun: Sequence[OutboxId], now: datetime) -> Transaction[int]:
    """Of what a dead worker had opened, what it had not begun to call was never called."""
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


def suspensions(held: Sequence[Claim]) -> Transaction[dict[JobId, bool]]:
    """Whether each of these jobs was paused or stopped; those that were lost are left out."""
    rows = yield from ask_alone(
        "suspensions", {"id": [job.id for job in held], "fence": [job.fence for job in held]}
    )
    return {row[0]: bool(row[1]) for row in rows}


def see_suspensions(held: Sequence[Claim]) -> Transaction[None]:
    """Their worker knows, and begins no more calls of them."""
    in_order = sorted(held, key=lambda job: job.id)
    yield from ask_alone(
        "see_suspensions",
        {"id": [job.id for job in in_order], "fence": [job.fence for job in in_order]},
    )


def suspensions_unseen(run_id: RunId) -> Transaction[bool]:
    """Whether a worker holds a job of the run and may not know yet of its pause or stop."""
    rows = yield from ask_alone("suspensions_unseen", run_id=run_id)
    return bool(rows[0][0])


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


def _tell_of_rest(
    run_id: RunId, scope: Scope, job_ids: Sequence[JobId], why: str, ids: IdSource, now: datetime
) -> Transaction[None]:
    """Once for all jobs of a run."""
    message = (
        f"{len(job_ids)} jobs of the run keep losing their workers without progress, and wait ever"
        f" longer between their attempts; the last time: {why}"
    )
    detail = {"runId": run_id, "jobIds": job_ids[:JOBS_TOLD], "why": why}
    yield from raise_alert(Alert(scope, AlertCode.JOB_RESTS, run_id, message, detail), ids, now)


def tell_of_progress(run_id: RunId, now: datetime) -> Transaction[None]:
    """A job that rested got somewhere; others of its run that do not will tell again."""
    yield from resolve_alert(AlertCode.JOB_RESTS, run_id, now)


def _put_to_rest(rows: Rows, ids: IdSource, now: datetime) -> Transaction[None]:
    """What died is a worker: nobody whom the job has not called is given up because of it."""
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
        yield from _tell_of_rest(run_id, scope, [row[0] for row in of_run], why, ids, now)


def standing(job_id: JobId) -> Transaction[JobState | None]:
    rows = yield from ask("job_standing", job_id=job_id)
    if not rows:
        return None
    status, run_at, paused = rows[0]
    return JobState(JobStatus(status), run_at, bool(paused))


def requeue(now: datetime) -> Transaction[int]:
    """Failed jobs whose time has come, and parked jobs whose last doubt was resolved."""
    failed = yield from ask("requeue_failed", now=now)
    woken = yield from ask("wake_resolved", now=now)
    return len(failed) + len(woken)


def bury_left_waiting(reason: str, since: datetime, now: datetime) -> Transaction[int]:
    """Of jobs that were stopped (`cancelled`), or else given up, and ended since then, what waits
    although nobody will come."""
    rows = yield from ask(
        "bury_left_waiting", cancelled=reason == CANCELLED, reason=reason, since=since, now=now
    )
    return len(rows)


def forget_lost_leases(before: datetime, most: int) -> Transaction[int]:
    """Leases that were lost long ago, of jobs of which nothing is in doubt any more: nobody will
    ask whether their workers live."""
    rows = yield from ask("forget_lost_leases", before=before, most=most)
    return len(rows)


def work_is_left(until: datetime) -> Transaction[bool]:
    """Whether anything is due until that moment, or with a worker now."""
    rows = yield from ask("work_is_left", until=until)
    return bool(rows[0][0])
