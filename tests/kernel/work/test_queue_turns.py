"""Queue turns: who is served next, over groups of modes, workspaces and targets. A1."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from outrider.kernel.transactions.claims import CANCELLED_GROUP, QueueGroup
from outrider.kernel.work.queue_turns import QueueTurns, WorkFilter

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(seconds=30)


def never_closed(_target: str) -> datetime | None:
    return None


def turns(*names: str, work_filter: WorkFilter | None = None) -> QueueTurns:
    made = QueueTurns(work_filter or WorkFilter(), never_closed)
    made.learn([QueueGroup(name, NOON) for name in names])
    return made


def test_a_worker_with_four_places_serves_two_groups_alike() -> None:
    chosen = turns("batch/a/sms", "batch/b/sms").choose(4, Counter(), NOON)
    assert chosen == {"batch/a/sms": 2, "batch/b/sms": 2}


def test_a_group_that_has_jobs_here_waits_for_one_that_has_none() -> None:
    held = Counter({"batch/a/sms": 3})
    assert turns("batch/a/sms", "batch/b/sms").choose(1, held, NOON) == {"batch/b/sms": 1}


def test_stopped_jobs_are_ended_first_and_realtime_goes_before_batch() -> None:
    made = turns("batch/a/sms", "realtime/b/push", CANCELLED_GROUP)
    assert made.choose(1, Counter(), NOON) == {CANCELLED_GROUP: 1}
    made.drained(CANCELLED_GROUP)
    assert made.choose(3, Counter(), NOON) == {"realtime/b/push": 3}


def test_a_group_whose_target_is_closed_is_not_served_until_it_opens() -> None:
    made = QueueTurns(WorkFilter(), lambda target: LATER if target == "sms" else None)
    made.learn([QueueGroup("batch/a/sms", NOON), QueueGroup(CANCELLED_GROUP, NOON)])
    assert made.choose(2, Counter(), NOON) == {CANCELLED_GROUP: 2}
    made.drained(CANCELLED_GROUP)
    assert made.choose(2, Counter(), NOON) == {}
    assert made.next_due() == LATER


def test_a_dedicated_worker_takes_its_own_targets_and_mode_and_whatever_was_stopped() -> None:
    wanted = WorkFilter(frozenset({"sms"}), "realtime")
    made = turns(
        "batch/a/sms", "realtime/a/sms", "realtime/a/push", CANCELLED_GROUP, work_filter=wanted
    )
    assert {each.name for each in made.due(NOON)} == {"realtime/a/sms", CANCELLED_GROUP}


def test_a_group_due_later_is_not_chosen_and_its_time_is_known() -> None:
    made = QueueTurns(WorkFilter(), never_closed)
    made.learn([QueueGroup("batch/a/sms", LATER), QueueGroup("batch/b/sms", None)])
    assert made.choose(4, Counter(), NOON) == {}
    assert made.next_due() == LATER


@given(st.integers(1, 12), st.integers(1, 60))
def test_over_time_every_group_is_served_equally_often(groups: int, rounds: int) -> None:
    names = [f"batch/{number:02}/sms" for number in range(groups)]
    made, served = turns(*names), Counter[str]()
    for _ in range(rounds):
        served += Counter(made.choose(1, Counter(), NOON))
    counts = [served[name] for name in names]
    assert max(counts) - min(counts) <= 1
