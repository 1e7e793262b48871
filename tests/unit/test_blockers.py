"""Why something is not moving: one decision, from facts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from outrider.domain.blocker_facts import (
    FAULTS,
    BlockerCode,
    ClosedDoor,
    Doubts,
    JobsAtTarget,
    MessageFacts,
    PausedTarget,
    RunFacts,
    SilentHolders,
    Surroundings,
)
from outrider.domain.blocker_words import database_down
from outrider.domain.blockers import event_blockers, message_blockers, run_blockers
from outrider.domain.evidence import Settles
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.targets import DoorState
from outrider.domain.times import rfc3339
from outrider.domain.workflows import STEP_DELAY

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
LONG_AGO = NOON - timedelta(minutes=5)
MOVING = JobsAtTarget("sms.main", "http://one.test", held=2, due=1, due_at=LONG_AGO, takers=1)
WAITING = replace(MOVING, held=0)
RUN = RunFacts("run-1", False, None, LONG_AGO, LONG_AGO, None, "launch", "campaign-1", [MOVING])
MESSAGE = MessageFacts("item-1", "sms.main", LONG_AGO)
ONE_WORKER = Surroundings(1)
NOBODY = Surroundings(0)
DOWN = ClosedDoor(DoorState.DOWN, LONG_AGO, NOON, "connect: refused")
THROTTLED = ClosedDoor(DoorState.THROTTLED, LONG_AGO, NOON, "HTTP 503")


def codes(run: RunFacts, around: Surroundings = ONE_WORKER) -> list[str]:
    return [each.code.value for each in run_blockers(run, around, NOON)]


def at(**changes: object) -> RunFacts:
    return replace(RUN, jobs=[replace(WAITING, **changes)])  # type: ignore[arg-type]


def test_a_run_that_moves_has_no_blocker() -> None:
    assert codes(RUN) == []
    assert codes(RUN, NOBODY) == [], "its jobs are held"
    assert codes(replace(RUN, is_finished=True, waits_for="approval")) == []


@pytest.mark.parametrize(
    ("run", "around", "code", "hint"),
    [
        (replace(RUN, waits_for="approval"), ONE_WORKER, "AWAITING_APPROVAL", "run-1 APPROVE"),
        (replace(RUN, waits_for="room"), ONE_WORKER, "AWAITING_ROOM", "by itself"),
        (replace(RUN, paused_at=LONG_AGO), ONE_WORKER, "PAUSED", "resume campaign-1 launch"),
        (
            replace(RUN, scheduled_for=NOON + timedelta(days=1)),
            ONE_WORKER,
            "SCHEDULED",
            "by itself",
        ),
        (at(door=DOWN), ONE_WORKER, "TARGET_DOWN", "target reset sms.main"),
        (at(door=THROTTLED), ONE_WORKER, "TARGET_THROTTLED", "rate_per_second"),
        (at(door=replace(DOWN, is_held=True)), ONE_WORKER, "TARGET_DOWN", "outrider check"),
        (at(door=DOWN, is_elsewhere=True), ONE_WORKER, "TARGET_DOWN", "run repoint run-1"),
        (
            at(paused=PausedTarget("ada", LONG_AGO)),
            ONE_WORKER,
            "TARGET_PAUSED",
            "target resume sms.main",
        ),
        (at(), NOBODY, "NO_WORKER", "outrider work"),
        (at(takers=0), ONE_WORKER, "NO_WORKER", "--targets sms.main"),
        (at(), ONE_WORKER, "NO_WORKER", "its turn"),
        (
            at(silent=SilentHolders(2, "host/7", LONG_AGO, NOON)),
            ONE_WORKER,
            "NO_WORKER",
            "outrider workers",
        ),
        (at(), replace(ONE_WORKER, engine_down_since=LONG_AGO), "ENGINE_DOWN", "Temporal"),
    ],
)
def test_each_cause_has_its_code_and_says_what_to_do(
    run: RunFacts, around: Surroundings, code: str, hint: str
) -> None:
    (found,) = run_blockers(run, around, NOON)
    assert (found.code, found.since) == (code, LONG_AGO)
    assert hint in found.hint
    assert found.message


def test_a_momentary_throttle_or_wait_for_a_turn_is_no_blocker() -> None:
    just_now = NOON - timedelta(seconds=1)
    assert codes(at(door=replace(THROTTLED, since=just_now, opens_at=NOON), due_at=just_now)) == []
    assert codes(at(due=0, due_at=None, next_at=NOON + timedelta(seconds=60))) == []


def test_a_doubt_blocks_when_nothing_else_is_left() -> None:
    doubts = Doubts(3, LONG_AGO)
    assert codes(replace(RUN, doubts=doubts)) == []
    parked = replace(RUN, doubts=doubts, jobs=[JobsAtTarget("sms.main", parked=1)])
    (found,) = run_blockers(parked, ONE_WORKER, NOON)
    assert (found.code, found.since) == (BlockerCode.IN_DOUBT, LONG_AGO)
    assert "3 items are in doubt and left to people since" in found.message
    more = replace(parked, doubts=replace(doubts, settling=4))
    assert "4 more settle by evidence" in run_blockers(more, ONE_WORKER, NOON)[0].message


def test_a_run_that_waits_for_evidence_alone_says_for_which_and_until_when() -> None:
    doubts = Doubts(0, None, 12, LONG_AGO, NOON, by_receipt=9, by_look_up=3)
    run = replace(RUN, doubts=doubts, jobs=[JobsAtTarget("sms.main", parked=12)])
    [found] = run_blockers(run, ONE_WORKER, NOON)
    assert (found.code, found.since) == (BlockerCode.DOUBTS_SETTLING, LONG_AGO)
    assert found.code not in FAULTS
    assert "12 items are in doubt since" in found.message
    assert "9 by receipts of the provider, 3 by asking the provider" in found.message
    assert f"The next check is at {rfc3339(NOON)}." in found.message
    assert f"doubts list --run {run.id}`" in found.hint
    assert "outrider work" in run_blockers(run, NOBODY, NOON)[0].hint
    # Most settle before anybody could read of them.
    just_now = replace(doubts, settling_since=NOON - timedelta(seconds=1))
    assert codes(replace(run, doubts=just_now)) == []
    moving = replace(run, jobs=[MOVING])
    assert codes(moving) == []


def test_a_message_in_doubt_says_what_evidence_it_waits_for() -> None:
    doubted = replace(MESSAGE, doubted_at=LONG_AGO, settles=Settles.RECEIPT, next_check_at=NOON)
    (found,) = message_blockers(doubted, WAITING, NOBODY, NOON)
    assert (found.code, found.since) == (BlockerCode.DOUBTS_SETTLING, LONG_AGO)
    assert "by a receipt of its provider" in found.message
    assert rfc3339(NOON) in found.message
    (found,) = message_blockers(replace(doubted, settles=Settles.PERSON), WAITING, NOBODY, NOON)
    assert found.code is BlockerCode.IN_DOUBT


def test_each_target_of_a_run_has_its_own_blocker() -> None:
    two = replace(RUN, jobs=[replace(WAITING, door=DOWN), MOVING])
    (found,) = run_blockers(two, ONE_WORKER, NOON)
    assert found.submission_target == "sms.main"
    assert "sms.main at http://one.test is down" in found.message
    assert "connect: refused" in found.message


def test_a_message_waits_for_quiet_hours_before_its_lane() -> None:
    later = NOON + timedelta(hours=8)
    quiet = replace(MESSAGE, waits_for=WaitsFor.QUIET_HOURS, waits_until=later)
    (found,) = message_blockers(quiet, WAITING, NOBODY, NOON)
    assert found.code is BlockerCode.QUIET_HOURS
    (found,) = message_blockers(MESSAGE, WAITING, NOBODY, NOON)
    assert found.code is BlockerCode.NO_WORKER
    assert message_blockers(MESSAGE, MOVING, ONE_WORKER, NOON) == []


def test_a_message_says_itself_what_it_waits_for() -> None:
    later = NOON + timedelta(hours=8)
    step = replace(MESSAGE, waits_for=STEP_DELAY, waits_until=later)
    (found,) = message_blockers(step, MOVING, ONE_WORKER, NOON)
    assert (found.code, found.since) == (BlockerCode.SCHEDULED, LONG_AGO)
    assert message_blockers(replace(step, waits_until=NOON), MOVING, ONE_WORKER, NOON) == []
    (found,) = message_blockers(replace(MESSAGE, doubted_at=NOON), WAITING, NOBODY, NOON)
    assert (found.code, found.since) == (BlockerCode.IN_DOUBT, NOON)
    assert "doubts resolve item-1`" in found.hint


def test_an_event_waits_only_where_no_process_runs() -> None:
    assert event_blockers(LONG_AGO, 1, NOON, NOON) == []
    (found,) = event_blockers(LONG_AGO, 0, None, NOON)
    assert (found.code, found.since) == (BlockerCode.NO_WORKER, LONG_AGO)


def test_a_database_that_is_away_is_named() -> None:
    found = database_down(LONG_AGO)
    assert (found.code, found.since) == (BlockerCode.DATABASE_DOWN, LONG_AGO)
