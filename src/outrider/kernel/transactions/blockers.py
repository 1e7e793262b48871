"""What decides whether runs and lanes move, read for many of them in a few statements."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.blocker_facts import ClosedDoor, Doubts, HeldByPolicy
from outrider.domain.evidence import Settles
from outrider.domain.ids import JobId, OutboxId, RunId, Scope, TenantId, WorkspaceId
from outrider.domain.rollouts import StepProgress
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.targets import DoorState
from outrider.kernel.transactions import policy_holds, recovery, rollouts, targets, variants
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.policy_holds import PolicyHold
from outrider.kernel.transactions.recovery import Quarantine
from outrider.kernel.transactions.targets import DoorKey, TargetPause
from outrider.ports.store import Row, Transaction, ask, ask_alone


class JudgedRun(NamedTuple):
    id: RunId
    scope: Scope
    campaign_id: str
    phase: str
    is_finished: bool
    scheduled_for: datetime
    created_at: datetime
    state: str | None
    """Of its phase; None if the phase has another run by now."""
    state_since: datetime | None
    progressed_at: datetime | None
    waits_for: str | None


class WaitingJobs(NamedTuple):
    """`subject` is the run, or the lane. A lane has no contract of its own: its messages do."""

    subject: str
    submission_target: str
    contract_id: int | None
    mode: str
    held: int
    due: int
    due_at: datetime | None
    next_at: datetime | None
    parked: int
    silent_jobs: int
    silent_worker: str | None
    silent_since: datetime | None
    silent_lease_ends_at: datetime | None
    taken_at: datetime | None
    """When a worker took the newest of those that are held."""


class TargetsNow(NamedTuple):
    """Closed doors and paused targets, over all workspaces."""

    doors: dict[DoorKey, ClosedDoor]
    paused: dict[str, TargetPause]

    def door(self, target: str, url: str, workspace_id: str) -> ClosedDoor | None:
        """The shared door and the workspace's own may be closed for one cause: the one that opens
        later counts."""
        key = DoorKey(target, url, workspace_id)
        found = [door for each in (key.shared, key) if (door := self.doors.get(each)) is not None]
        return max(found, key=lambda door: door.opens_at or door.since, default=None)


class RunsFacts(NamedTuple):
    runs: list[JudgedRun]
    jobs: dict[str, list[WaitingJobs]]
    doubts: dict[str, Doubts]
    held: dict[RunId, list[HeldByPolicy]]
    rollouts: dict[RunId, list[StepProgress]]
    without_winner: dict[RunId, list[str]]


def runs(
    run_ids: Sequence[RunId], now: datetime, silent_before: datetime
) -> Transaction[RunsFacts]:
    window = {"id": list(run_ids)}
    found = [_judged(row) for row in (yield from ask("runs_to_judge", window))]
    rows = yield from ask("jobs_that_wait", window, now=now, silent_before=silent_before)
    jobs: dict[str, list[WaitingJobs]] = {}
    for row in rows:
        waiting = WaitingJobs(*row)
        jobs.setdefault(waiting.subject, []).append(waiting)
    # Doubts block a run only if nothing else of it is left.
    quiet = [
        run.id
        for run in found
        if not run.is_finished
        and not any(each.held or each.due or each.next_at for each in jobs.get(run.id, []))
    ]
    doubts: dict[str, Doubts] = {}
    rolling: dict[RunId, list[StepProgress]] = {}
    without_winner: dict[RunId, list[str]] = {}
    if quiet:
        rolling = yield from rollouts.of_runs(quiet)
        without_winner = yield from variants.undecided(rolling)
        counted = yield from ask("doubts_of_runs", {"id": quiet})
        doubts = {run_id: Doubts(*rest) for run_id, *rest in counted}
    parked = [run.id for run in found if not run.is_finished and _is_parked(jobs.get(run.id, []))]
    held = (yield from policy_holds.of_runs(parked)) if parked else {}
    by_policy = {run_id: _held(each) for run_id, each in held.items()}
    return RunsFacts(found, jobs, doubts, by_policy, rolling, without_winner)


def _is_parked(waiting: Sequence[WaitingJobs]) -> bool:
    """All of its jobs wait for a time that has not come."""
    return any(each.next_at for each in waiting) and not any(
        each.held or each.due for each in waiting
    )


def _held(holds: Sequence[PolicyHold]) -> list[HeldByPolicy]:
    return [
        HeldByPolicy(WaitsFor(each.waits_for), each.waiting, each.since, each.until)
        for each in holds
        if each.waiting
    ]


class DoubtOfItem(NamedTuple):
    """What it waits for, and when that is looked for next."""

    settles: Settles | None
    next_check_at: datetime | None


def doubts_of(outbox_ids: Sequence[OutboxId]) -> Transaction[dict[OutboxId, DoubtOfItem]]:
    rows = yield from ask("doubts_of_items", {"id": outbox_ids})
    return {
        OutboxId(row[0]): DoubtOfItem(None if row[1] is None else Settles(row[1]), row[2])
        for row in rows
    }


def lanes(
    job_ids: Sequence[JobId], now: datetime, silent_before: datetime
) -> Transaction[dict[str, WaitingJobs]]:
    """By the lane's id."""
    window = {"id": list(job_ids)}
    rows = yield from ask("lanes_that_wait", window, now=now, silent_before=silent_before)
    return {row[0]: WaitingJobs(*row) for row in rows}


def targets_now(most: int) -> Transaction[TargetsNow]:
    rows = yield from ask("closed_doors", most=most)
    doors = {DoorKey(*row[:3]): _door(row) for row in rows}
    return TargetsNow(doors, (yield from targets.paused_targets()))


class Shared(NamedTuple):
    """What all runs share. An alert says since when the engine is away."""

    targets: TargetsNow
    engine_down_at: datetime | None
    quarantine: Quarantine | None


def surroundings(most: int) -> Transaction[Shared]:
    found = yield from targets_now(most)
    rows = yield from ask("open_engine_alert", code=AlertCode.ENGINE_DOWN.value)
    quarantined = yield from recovery.quarantine()
    return Shared(found, rows[0][0] if rows else None, quarantined)


def open_runs(after: str, most: int) -> Transaction[list[RunId]]:
    rows = yield from ask_alone("open_runs", after=after, most=most)
    return [row[0] for row in rows]


def unfinished_runs(after: str, now: datetime, most: int) -> Transaction[list[RunId]]:
    """A page of the runs that should be moving."""
    rows = yield from ask_alone("unfinished_runs", after=after, now=now, most=most)
    return [row[0] for row in rows]


def _judged(row: Row) -> JudgedRun:
    run_id, tenant_id, workspace_id, campaign_id, phase, is_finished, *rest = row
    scope = Scope(TenantId(tenant_id), WorkspaceId(workspace_id))
    return JudgedRun(run_id, scope, campaign_id, phase, bool(is_finished), *rest)


def _door(row: Row) -> ClosedDoor:
    _target, _url, _workspace, state, since, opens_at, failures, reason = row
    # A held door closed without a failed call: it was refused.
    is_held = state == DoorState.DOWN and not failures
    return ClosedDoor(DoorState(state), since, opens_at, reason, is_held)
