"""Claims: a job or lane is claimed with a higher fence; a run starts with its first claim."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import (
    AssetId,
    CampaignId,
    Fence,
    JobId,
    RunId,
    Scope,
    TenantId,
    WorkerId,
    WorkspaceId,
)
from outrider.domain.run_events import RunEventType
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.run_log import EventDraft
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, Window, ask, ask_alone


class ClaimedJob(NamedTuple):
    """A job that is ours until its lease runs out or another worker takes a higher fence."""

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
    """As claimed; heartbeats extend it."""
    queue_group: str
    losses: int = 0
    """How often in a row it was lost without any of its items having ended."""
    local_launch: str | None = None
    """The time at which each recipient is sent to, by their own clock."""
    first_draw: int | None = None
    last_draw: int | None = None
    """In a rollout: whom of its positions it is for."""
    distrusted: bool = False
    """The database was restored: what the job has to do may have been done already."""
    first_choice: int | None = None
    last_choice: int | None = None
    """Of a message with variants: who of these it is for."""

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
    """The permanent job that delivers the single messages of one submission target."""

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
        """Giving a lane back means that its due items have ended: its attempts count from there."""
        return self.attempts

    @property
    def queue_group(self) -> str:
        """Lanes do not belong to a queue group."""
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
    """Who claims, until when, and the engine's id for a run that starts with the claim."""

    worker_id: WorkerId
    lease_expires_at: datetime
    reference: Callable[[TenantId, RunId], str]
    ids: IdSource


class QueueGroup(NamedTuple):
    """Jobs of one mode, workspace and target; `run_at` is when the first of them is due. Jobs of
    stopped runs form a separate group."""

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


def queue_groups(after: str, most: int) -> Transaction[list[QueueGroup]]:
    """The groups with waiting jobs, ordered by name."""
    rows = yield from ask_alone("queue_groups", after=after, most=most)
    return [QueueGroup(*row) for row in rows]


def claim(claimer: Claimer, wanted: Mapping[str, int], now: datetime) -> Transaction[list[Claim]]:
    """Lock up to the given number of due jobs of each named group, oldest first."""
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


class WantedLanes(NamedTuple):
    """Which lanes are wanted, as JSON lists: of these targets only, excluding closed ones."""

    targets: str | None = None
    closed: str = "[]"


def claim_lanes(
    claimer: Claimer, mode: str, of: WantedLanes, most: int, now: datetime
) -> Transaction[list[Claim]]:
    """Lock the lanes of a mode that have been due for longest. They have no run to start, so this
    is one statement, and a single message waits for nothing more."""
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
    """Lock this job; empty if it is not due, or another worker has it."""
    locked = yield from ask(
        "claim_given_job",
        job_id=job_id,
        worker_id=claimer.worker_id,
        lease_expires_at=claimer.lease_expires_at,
        now=now,
    )
    return (yield from _claimed(locked, claimer, now))


def _claimed(locked: Rows, claimer: Claimer, now: datetime) -> Transaction[list[Claim]]:
    """The first claim of a run starts it. A lane has no run, and is complete from its lock."""
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


def next_lanes_due(of: WantedLanes) -> Transaction[dict[str, datetime]]:
    """For each mode, when the next lane that is not held is due, or since when one is."""
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
    """The caller holds the lock on the run's row."""
    payload = {"engineRunRef": reference, "startedBy": by}
    draft = EventDraft(RunEventType.RUN_STARTED, payload=payload)
    appended = yield from run_log.append(run_id, version, [draft], now)
    yield from ask("start_run", run_id=run_id, status_seq=appended[-1].run_seq, now=now)
