"""Why a run, a lane or an event is not moving: one decision, which every page and tool shows.

A blocker says what it waits for, since when, and what to do. There is none while it moves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from outrider.domain.targets import DoorState
from outrider.domain.times import rfc3339

THROTTLE_SHOWN_SECONDS = 2.0
"""A target that throttles for a moment only slows a run down."""
TURN_SECONDS = 5.0
"""A job that is due may wait this long for its turn."""


class BlockerCode(StrEnum):
    SCHEDULED = "SCHEDULED"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    AWAITING_ROOM = "AWAITING_ROOM"
    PAUSED = "PAUSED"
    QUIET_HOURS = "QUIET_HOURS"
    TARGET_THROTTLED = "TARGET_THROTTLED"
    TARGET_DOWN = "TARGET_DOWN"
    TARGET_PAUSED = "TARGET_PAUSED"
    NO_WORKER = "NO_WORKER"
    DATABASE_DOWN = "DATABASE_DOWN"
    IN_DOUBT = "IN_DOUBT"
    ENGINE_DOWN = "ENGINE_DOWN"


FAULTS = frozenset(
    {
        BlockerCode.TARGET_THROTTLED,
        BlockerCode.TARGET_DOWN,
        BlockerCode.NO_WORKER,
        BlockerCode.DATABASE_DOWN,
        BlockerCode.ENGINE_DOWN,
    }
)
"""What nobody decided: a run that waits for one of these is stalled."""


@dataclass(frozen=True, slots=True)
class Blocker:
    code: BlockerCode
    since: datetime
    message: str
    hint: str
    submission_target: str | None = None


@dataclass(frozen=True, slots=True)
class ClosedDoor:
    """`held`: the provider refuses us or our set-up, so that somebody has to change something."""

    state: DoorState
    since: datetime
    opens_at: datetime | None
    reason: str | None
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class PausedTarget:
    paused_by: str
    paused_at: datetime


@dataclass(frozen=True, slots=True)
class SilentHolders:
    """Jobs whose worker has not reported for a while: it is frozen, cut off or dead."""

    jobs: int
    worker: str
    since: datetime
    lease_ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobsAtTarget:
    """The unfinished jobs of a run for one target at one URL, or a lane.

    `held` jobs are with workers that report; `due` ones could be taken, the first of them since
    `due_at`; `next_at` is when the next one is due; `parked` ones wait for a verdict.
    """

    submission_target: str
    gateway_url: str | None = None
    """None if the reader may not see it."""
    held: int = 0
    due: int = 0
    due_at: datetime | None = None
    next_at: datetime | None = None
    parked: int = 0
    silent: SilentHolders | None = None
    door: ClosedDoor | None = None
    paused: PausedTarget | None = None
    is_elsewhere: bool = False
    registry_url: str | None = None
    """If the registry has another URL for the target now; None if the reader may not see it."""
    takers: int = 0
    """Live workers that take jobs for this target."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """`by_people`: how many of them nothing but a person can settle."""

    items: int
    since: datetime
    by_people: int | None = None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all runs share: the workers, and whether the engine answers."""

    workers: int
    worker_seen_at: datetime | None = None
    engine_down_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    id: str
    is_finished: bool
    waits_for: str | None
    """`approval` or `room`, for a run that has not been admitted yet."""
    created_at: datetime
    scheduled_for: datetime
    paused_at: datetime | None
    phase: str
    campaign_id: str
    jobs: Sequence[JobsAtTarget] = ()
    doubts: Doubts | None = None


def run_blockers(run: RunFacts, around: Surroundings, now: datetime) -> list[Blocker]:
    """Empty while it moves."""
    if run.is_finished:
        return []
    decided = _decided(run, now)
    if decided is not None:
        return [decided]
    found = [
        blocker
        for jobs in run.jobs
        if (blocker := _at_target(jobs, around, now, run.id)) is not None
    ]
    if not found and run.doubts is not None and not _has_work(run.jobs):
        found = [_in_doubt(run.doubts)]
    return found


def lane_blockers(
    lane: JobsAtTarget, quiet_until: datetime | None, around: Surroundings, now: datetime
) -> list[Blocker]:
    """Of single messages: their lane, and what the message itself waits for."""
    if quiet_until is not None and quiet_until > now:
        words = f"It waits for the recipient's quiet hours to end, at {rfc3339(quiet_until)}."
        hint = "Nothing to do: it is sent then."
        return [Blocker(BlockerCode.QUIET_HOURS, now, words, hint, lane.submission_target)]
    found = _at_target(lane, around, now, None)
    return [found] if found is not None else []


def event_blockers(
    due_at: datetime, processes: int, seen_at: datetime | None, now: datetime
) -> list[Blocker]:
    """Of a domain event that has not been routed: every server and worker routes events."""
    if processes or due_at + timedelta(seconds=TURN_SECONDS) > now:
        return []
    around = Surroundings(0, seen_at)
    return [_no_worker(around, due_at, None)]


def database_down(since: datetime) -> Blocker:
    """Without the driver's words, which may name hosts and files: those are in the log."""
    return Blocker(
        BlockerCode.DATABASE_DOWN,
        since,
        f"The database has not answered since {rfc3339(since)}.",
        "Restore the database. Work continues by itself; nothing is lost, and no attempt is used.",
    )


def _decided(run: RunFacts, now: datetime) -> Blocker | None:
    """What a person decided, or has to."""
    if run.waits_for == "approval":
        return Blocker(
            BlockerCode.AWAITING_APPROVAL,
            run.created_at,
            "The run waits for an approval.",
            f"Approve it with `outrider run signal {run.id} APPROVE`, or reject it.",
        )
    if run.waits_for is not None:
        return Blocker(
            BlockerCode.AWAITING_ROOM,
            run.created_at,
            "The workspace runs as many runs as it may; this one waits for capacity.",
            "Nothing to do: it starts by itself when another run ends.",
        )
    if run.paused_at is not None:
        return Blocker(
            BlockerCode.PAUSED,
            run.paused_at,
            f"The phase '{run.phase}' has been paused since {rfc3339(run.paused_at)}.",
            f"Resume it with `outrider campaign resume {run.campaign_id} {run.phase}`.",
        )
    if run.scheduled_for > now:
        return Blocker(
            BlockerCode.SCHEDULED,
            run.created_at,
            f"The run is scheduled for {rfc3339(run.scheduled_for)}.",
            "Nothing to do: it starts by itself.",
        )
    return None


def _at_target(
    jobs: JobsAtTarget, around: Surroundings, now: datetime, run_id: str | None
) -> Blocker | None:
    if not (jobs.held or jobs.due or jobs.next_at or jobs.silent):
        return None
    if jobs.paused is not None:
        return _target_paused(jobs, jobs.paused)
    if jobs.door is not None:
        closed = _closed(jobs, jobs.door, now, run_id)
        if closed is not None:
            return closed
    if jobs.held:
        return None
    if jobs.silent is not None:
        return _silent(jobs, jobs.silent)
    if jobs.due_at is None:
        return None
    if around.engine_down_since is not None:
        return _engine_down(around.engine_down_since, jobs.submission_target)
    if not around.workers:
        return _no_worker(around, jobs.due_at, jobs.submission_target)
    if now - jobs.due_at < timedelta(seconds=TURN_SECONDS):
        return None
    return _no_taker(jobs, jobs.due_at, around)


def _target_paused(jobs: JobsAtTarget, paused: PausedTarget) -> Blocker:
    target = jobs.submission_target
    return Blocker(
        BlockerCode.TARGET_PAUSED,
        paused.paused_at,
        f"The target {where_of(jobs)} has been paused by {paused.paused_by} since"
        f" {rfc3339(paused.paused_at)}.",
        f"Resume it with `outrider target resume {target}`.",
        target,
    )


def _closed(
    jobs: JobsAtTarget, door: ClosedDoor, now: datetime, run_id: str | None
) -> Blocker | None:
    is_throttled = door.state is DoorState.THROTTLED
    lasts = max(now, door.opens_at or now) - door.since
    if is_throttled and lasts < timedelta(seconds=THROTTLE_SHOWN_SECONDS):
        return None
    return Blocker(
        BlockerCode.TARGET_THROTTLED if is_throttled else BlockerCode.TARGET_DOWN,
        door.since,
        door_message(where_of(jobs), door),
        _door_hint(jobs, door, run_id),
        jobs.submission_target,
    )


def door_message(where: str, door: ClosedDoor) -> str:
    if door.state is DoorState.THROTTLED:
        does = "asks to retry later"
    else:
        does = "refuses us or our set-up" if door.is_held else "is down"
    why = f": {door.reason}" if door.reason else ""
    again = f" The next try is at {rfc3339(door.opens_at)}." if door.opens_at else ""
    return (
        f"The target {where} {does} (since {rfc3339(door.since)}){why}.{again} Its messages wait"
        " without using up attempts."
    )


def repoint_hint(jobs: JobsAtTarget, run_id: str) -> str:
    there = f" at {jobs.registry_url}" if jobs.registry_url else " at another address"
    return (
        f"The registry has {jobs.submission_target}{there} now: `outrider run repoint {run_id}`"
        " moves the items not attempted yet."
    )


def _door_hint(jobs: JobsAtTarget, door: ClosedDoor, run_id: str | None) -> str:
    target = jobs.submission_target
    if jobs.is_elsewhere and run_id is not None:
        return repoint_hint(jobs, run_id)
    if door.is_held:
        return (
            f"Fix the target's set-up (`outrider check` says what is wrong), then"
            f" `outrider target reset {target}` tries it at once."
        )
    if door.state is DoorState.THROTTLED:
        return (
            f"Nothing to do: it continues by itself. If it lasts, ask the provider, or send less"
            f" with `rate_per_second` of {target}."
        )
    return (
        f"Check the provider and the address of {target} in the registry; it continues by itself"
        f" when the provider answers, and at once with `outrider target reset {target}`."
    )


def _silent(jobs: JobsAtTarget, silent: SilentHolders) -> Blocker:
    ends = (
        f" Another worker takes them over at {rfc3339(silent.lease_ends_at)}."
        if silent.lease_ends_at is not None
        else ""
    )
    holds = "1 job" if silent.jobs == 1 else f"{silent.jobs} jobs"
    return Blocker(
        BlockerCode.NO_WORKER,
        silent.since,
        f"The worker {silent.worker} holds {holds} for {jobs.submission_target} and has not"
        f" reported since {rfc3339(silent.since)}: it is frozen, cut off or dead.{ends}",
        "Look at that process (`outrider workers`); if no other worker runs, start one with"
        " `outrider work`.",
        jobs.submission_target,
    )


def _engine_down(since: datetime, target: str | None) -> Blocker:
    return Blocker(
        BlockerCode.ENGINE_DOWN,
        since,
        f"The engine has not answered since {rfc3339(since)}, and hands out no work.",
        "Restore the engine (for Temporal: its server); work continues by itself.",
        target,
    )


def _no_worker(around: Surroundings, due_at: datetime, target: str | None) -> Blocker:
    seen_at = around.worker_seen_at
    seen = f"; the last one was seen at {rfc3339(seen_at)}" if seen_at is not None else ""
    return Blocker(
        BlockerCode.NO_WORKER,
        max(due_at, seen_at) if seen_at is not None else due_at,
        f"Work has been due since {rfc3339(due_at)} and no worker is running{seen}.",
        "Start a worker with `outrider work`.",
        target,
    )


def _no_taker(jobs: JobsAtTarget, due_at: datetime, around: Surroundings) -> Blocker:
    target = jobs.submission_target
    due = f"Work for {target} has been due since {rfc3339(due_at)}"
    if not jobs.takers:
        return Blocker(
            BlockerCode.NO_WORKER,
            due_at,
            f"{due}, and none of the {around.workers} running workers takes work for it.",
            f"Start one that does: `outrider work --targets {target}`, or without --targets and"
            " --mode.",
            target,
        )
    busy = "1 worker is" if jobs.takers == 1 else f"{jobs.takers} workers are"
    return Blocker(
        BlockerCode.NO_WORKER,
        due_at,
        f"{due}; {busy} running and busy with other jobs.",
        "It gets its turn; more workers (`outrider work`) make it sooner.",
        target,
    )


def _in_doubt(doubts: Doubts) -> Blocker:
    items = "1 item is" if doubts.items == 1 else f"{doubts.items:,} items are"
    people = (
        ""
        if doubts.by_people is None
        else f" {doubts.by_people:,} of them can only be settled by a person."
    )
    return Blocker(
        BlockerCode.IN_DOUBT,
        doubts.since,
        f"Everything else has ended; {items} in doubt since {rfc3339(doubts.since)}: the provider"
        f" may have them or not.{people}",
        "`outrider doubts list` shows them; settle each with `outrider doubts resolve`.",
    )


def _has_work(jobs: Sequence[JobsAtTarget]) -> bool:
    return any(each.held or each.due or each.next_at or each.silent for each in jobs)


def where_of(jobs: JobsAtTarget) -> str:
    target = jobs.submission_target
    return f"{target} at {jobs.gateway_url}" if jobs.gateway_url else target
