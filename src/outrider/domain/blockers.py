"""Why a run, a message or an event is not moving: one decision, which every page and tool shows.

A blocker says what it waits for, since when, and what to do. There is none while it moves.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from outrider.domain import blocker_words as words
from outrider.domain.blocker_facts import (
    Blocker,
    ClosedDoor,
    Doubts,
    JobsAtTarget,
    MessageFacts,
    RunFacts,
    Surroundings,
)
from outrider.domain.rollouts import StepProgress, holding
from outrider.domain.targets import DoorState

THROTTLE_SHOWN_SECONDS = 2.0
"""A target that throttles for a moment only slows a run down."""
TURN_SECONDS = 5.0
"""A job that is due may wait this long for its turn."""


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
    if not found and run.held and not any(jobs.held or jobs.due for jobs in run.jobs):
        found = [words.held_by_policy(run.held)]
    step = holding(run.rollout)
    if not found and step is not None and not _has_work(run.jobs):
        found = [_held(run, step, now)]
    if not found and run.doubts is not None and not _has_work(run.jobs):
        return _doubts(run.doubts, around, now, run.id)
    return found


def _held(run: RunFacts, step: StepProgress, now: datetime) -> Blocker:
    """At the last step but one, the hold may be over, and only a winner be missing."""
    until, is_last = step.hold_until, step.step == len(run.rollout) - 1
    if until is not None and until <= now and is_last and run.without_winner:
        return words.awaiting_winner(run, until)
    return words.rollout_hold(run, step)


def message_blockers(
    message: MessageFacts, lane: JobsAtTarget | None, around: Surroundings, now: datetime
) -> list[Blocker]:
    """Of a single message that has not ended: what it waits for itself, or what its lane does."""
    if message.doubted_at is not None:
        return [words.doubt_of_message(message, message.doubted_at)]
    what, until = message.waits_for, message.waits_until
    if what in words.WAITS and until is not None and until > now:
        return [words.message_waits(message, what, until)]
    found = _at_target(lane, around, now, None) if lane is not None else None
    return [found] if found is not None else []


def event_blockers(
    due_at: datetime, processes: int, seen_at: datetime | None, now: datetime
) -> list[Blocker]:
    """Of a domain event that has not been routed: every server and worker routes events."""
    if processes or due_at + timedelta(seconds=TURN_SECONDS) > now:
        return []
    return [words.no_worker(Surroundings(0, seen_at), due_at, None)]


def _decided(run: RunFacts, now: datetime) -> Blocker | None:
    """What a person decided, or has to."""
    if run.waits_for == "approval":
        return words.awaiting_approval(run)
    if run.waits_for is not None:
        return words.awaiting_room(run)
    if run.paused_at is not None:
        return words.paused(run, run.paused_at)
    if run.scheduled_for > now:
        return words.scheduled(run)
    return None


def _doubts(doubts: Doubts, around: Surroundings, now: datetime, run_id: str) -> list[Blocker]:
    """What is left to people; where nothing is, the evidence that is awaited."""
    if doubts.items and doubts.since is not None:
        return [words.run_in_doubt(doubts, doubts.since)]
    since = doubts.settling_since
    if since is None or now - since < timedelta(seconds=TURN_SECONDS):
        # Most settle at once.
        return []
    return [words.doubts_settle(doubts, since, run_id, has_worker=around.workers > 0)]


def _at_target(
    jobs: JobsAtTarget, around: Surroundings, now: datetime, run_id: str | None
) -> Blocker | None:
    if not (jobs.held or jobs.due or jobs.next_at or jobs.silent):
        return None
    if jobs.paused is not None:
        return words.target_paused(jobs, jobs.paused)
    if jobs.door is not None:
        closed = _closed(jobs, jobs.door, now, run_id)
        if closed is not None:
            return closed
    if jobs.held:
        return None
    if jobs.silent is not None:
        return words.silent_worker(jobs, jobs.silent)
    if jobs.due_at is None:
        return None
    if around.quarantined_since is not None:
        return words.database_restored(around.quarantined_since, jobs.submission_target)
    if around.engine_down_since is not None:
        return words.engine_down(around.engine_down_since, jobs.submission_target)
    if not around.workers:
        return words.no_worker(around, jobs.due_at, jobs.submission_target)
    if now - jobs.due_at < timedelta(seconds=TURN_SECONDS):
        return None
    return words.no_taker(jobs, jobs.due_at, around)


def _closed(
    jobs: JobsAtTarget, door: ClosedDoor, now: datetime, run_id: str | None
) -> Blocker | None:
    lasts = max(now, door.opens_at or now) - door.since
    is_brief = lasts < timedelta(seconds=THROTTLE_SHOWN_SECONDS)
    if door.state is DoorState.THROTTLED and is_brief:
        return None
    return words.target_closed(jobs, door, run_id)


def _has_work(jobs: Sequence[JobsAtTarget]) -> bool:
    return any(each.held or each.due or each.next_at or each.silent for each in jobs)
