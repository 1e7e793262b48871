"""A target's door: tokens, throttling, breaker, probes and slots, over any sequence of moments."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outrider.domain.targets import (
    PROBE_LOOK_SECONDS,
    SLOTS_GROW_SECONDS,
    THROTTLE_FIRST_SECONDS,
    Door,
    DoorState,
    Report,
    TargetPolicy,
    admit,
    report,
    reset,
    share_of,
    throttle_reports,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = TargetPolicy(rate_per_second=10, burst=10, breaker_failures=3, breaker_seconds=30)
OPEN = Door(10.0, NOON)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def failed(door: Door, moment: datetime, failures: int = 1) -> Door:
    return report(door, POLICY, Report(door.epoch, failures=failures), moment)


def answered(door: Door, moment: datetime) -> Door:
    return report(door, POLICY, Report(door.epoch, answered=1), moment)


def throttled(
    door: Door, moment: datetime, retry_after: float | None = None, in_flight: int = 1
) -> Door:
    seen = Report(
        door.epoch, throttled=1, retry_after_seconds=retry_after, in_flight=in_flight,
        reason="HTTP 429",
    )  # fmt: skip
    return report(door, POLICY, seen, moment)


def opening(door: Door) -> datetime:
    assert door.opens_at is not None
    return door.opens_at


def probed(door: Door) -> Door:
    """As soon as it opens, somebody asks."""
    admission = admit(door, POLICY, 100, opening(door))
    assert (admission.granted, admission.is_probe) == (1, True)
    return admission.door


DOWN = failed(OPEN, NOON, failures=3)
THROTTLED = throttled(OPEN, NOON)


# tokens


def test_a_full_bucket_grants_its_burst_and_then_says_when_the_next_tokens_come() -> None:
    first = admit(OPEN, POLICY, 25, NOON)
    assert (first.granted, first.wait_until, first.is_probe) == (10, None, False)
    one = admit(first.door, POLICY, 1, NOON)
    assert (one.granted, one.wait_until) == (0, at(0.1))
    assert admit(one.door, POLICY, 15, at(0.5)).granted == 5


def test_a_caller_that_wants_many_is_asked_to_return_after_a_second() -> None:
    empty = admit(OPEN, POLICY, 10, NOON).door
    assert admit(empty, POLICY, 5, NOON).wait_until == at(0.5)
    assert admit(empty, POLICY, 500, NOON).wait_until == at(1.0)
    slow = replace(POLICY, rate_per_second=0.5, burst=1)
    emptied = admit(replace(OPEN, tokens=1.0), slow, 1, NOON).door
    assert admit(emptied, slow, 500, NOON).wait_until == at(2.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 50)), max_size=60))
def test_no_sequence_of_requests_gets_more_than_burst_plus_rate(
    asks: list[tuple[float, int]],
) -> None:
    door, now, granted = OPEN, 0.0, 0
    for pause, want in asks:
        now += pause
        admission = admit(door, POLICY, want, at(now))
        door, granted = admission.door, granted + admission.granted
        assert admission.granted <= want
        assert (admission.granted == 0) == (admission.wait_until is not None)
        assert admission.wait_until is None or admission.wait_until > at(now)
    assert granted <= 10 + 10 * now + 1e-6


@given(st.integers(1, 50), st.integers(1, 20), st.floats(0.1, 100))
def test_a_caller_that_retries_at_the_given_time_is_admitted(
    want: int, burst: int, rate: float
) -> None:
    policy = TargetPolicy(rate_per_second=rate, burst=burst)
    empty = Door(0.0, NOON)
    told = admit(empty, policy, want, NOON).wait_until
    assert told is not None
    # A clock has microseconds, and a bucket has fractions of them.
    later = told + timedelta(milliseconds=1)
    assert admit(empty, policy, want, later).granted >= 1


def test_a_clock_that_goes_back_takes_no_tokens_away() -> None:
    assert admit(OPEN, POLICY, 5, at(-7200)).granted == 5


def test_without_a_rate_all_are_admitted() -> None:
    assert admit(OPEN, TargetPolicy(), 10_000, NOON).granted == 10_000


def test_asking_to_make_no_call_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        admit(OPEN, POLICY, 0, NOON)


# throttling


def test_a_throttled_door_admits_no_calls_and_then_one_at_a_time() -> None:
    first = opening(THROTTLED)
    assert (THROTTLED.state, THROTTLED.since) == (DoorState.THROTTLED, NOON)
    assert first == at(THROTTLE_FIRST_SECONDS)
    early = admit(THROTTLED, POLICY, 100, at(THROTTLE_FIRST_SECONDS / 2))
    assert (early.granted, early.wait_until) == (0, first)
    assert admit(THROTTLED, POLICY, 100, first).granted == 1


def test_throttling_backs_off_until_the_breakers_wait_and_no_longer() -> None:
    door, now, waits = OPEN, NOON, []
    for _ in range(10):
        door = throttled(door, now)
        waits.append((opening(door) - now).total_seconds())
        now = opening(door)
        door = probed(door)
    assert waits == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30]
    assert door.since == NOON


def test_an_answer_ends_the_backoff() -> None:
    again = throttled(probed(THROTTLED), at(1))
    open_again = answered(probed(again), at(3))
    assert open_again.is_open
    assert (open_again.since, open_again.opens_at, open_again.reason) == (None, None, None)
    assert opening(throttled(open_again, at(4))) == at(4 + THROTTLE_FIRST_SECONDS)


def test_retry_after_closes_the_door_for_all_workspaces_until_then() -> None:
    slowed = throttled(OPEN, NOON, retry_after=20)
    assert admit(slowed, POLICY, 1, at(19)).wait_until == at(20)
    assert admit(slowed, POLICY, 1, at(20)).granted == 1
    assert slowed.reason == "HTTP 429"


def test_retry_after_is_kept_even_if_it_is_longer_than_any_backoff() -> None:
    assert opening(throttled(OPEN, NOON, retry_after=3600)) == at(3600)


def test_a_long_retry_after_holds_its_own_workspace_and_the_others_for_a_minute() -> None:
    """XM: one answer closed a target for everybody for an hour."""
    for_all, for_us = throttle_reports(3, 7, 3600, 5, "HTTP 429")
    assert for_all == Report(
        3, throttled=1, retry_after_seconds=60, in_flight=5,
        reason="HTTP 429; it asked to wait 3,600 s; other workspaces try again after 60 s",
    )  # fmt: skip
    assert for_us == Report(
        7,
        throttled=1,
        retry_after_seconds=3600,
        in_flight=0,
        reason="HTTP 429; it asked to wait 3,600 s",
    )
    assert throttle_reports(3, 7, None, 5, None) == (
        Report(3, throttled=1, in_flight=5),
        Report(7, throttled=1, in_flight=0),
    )


def test_whose_probe_is_throttled_leaves_the_next_one_to_the_others() -> None:
    """XM: it took every probe, and the others never found out that they were let in."""
    for asked in (None, 20):
        for_all, for_us = throttle_reports(0, 0, asked, 5, None, again=True)
        shared, own = (report(OPEN, POLICY, each, NOON) for each in (for_all, for_us))
        assert opening(own) - opening(shared) == timedelta(seconds=PROBE_LOOK_SECONDS)
        for_all, for_us = throttle_reports(0, 0, asked, 5, None)
        assert opening(report(OPEN, POLICY, for_us, NOON)) == opening(shared)


def test_the_door_of_a_workspace_has_no_separate_slots() -> None:
    """Calls are counted at the door that all share; this one is trusted again once it is open."""
    closed = report(OPEN, POLICY, Report(OPEN.epoch, throttled=1, in_flight=0), NOON)
    assert report(closed, POLICY, Report(closed.epoch, answered=1), at(1)).is_untroubled


def test_a_first_retry_after_of_nothing_is_believed() -> None:
    assert opening(throttled(OPEN, NOON, retry_after=0)) == NOON


def test_a_retry_after_that_is_shorter_than_the_backoff_does_not_shorten_it() -> None:
    thrice = throttled(probed(throttled(probed(THROTTLED), at(1))), at(3), retry_after=0)
    assert opening(thrice) == at(3 + 4 * THROTTLE_FIRST_SECONDS)


def test_of_several_concurrent_calls_the_longest_wait_counts() -> None:
    slowed = throttled(OPEN, NOON, retry_after=20)
    stale = Report(OPEN.epoch, throttled=1, retry_after_seconds=1)
    assert report(slowed, POLICY, stale, at(5)).opens_at == at(20)
    longer = Report(OPEN.epoch, throttled=1, retry_after_seconds=60)
    assert report(slowed, POLICY, longer, at(5)).opens_at == at(65)


def test_an_answer_beside_a_refusal_restarts_the_backoff() -> None:
    later = probed(throttled(probed(THROTTLED), at(1)))
    both = report(later, POLICY, Report(later.epoch, answered=3, throttled=1), at(10))
    assert (both.state, both.opens_at) == (DoorState.THROTTLED, at(10 + THROTTLE_FIRST_SECONDS))


def test_throttling_is_no_failure_to_reach_it() -> None:
    door = failed(OPEN, NOON, failures=2)
    door = answered(probed(throttled(door, at(1))), at(2))
    assert failed(door, at(3), failures=2).is_open


# breaker and probes


def test_the_breaker_opens_after_consecutive_failures_and_one_probe_closes_it() -> None:
    door = failed(OPEN, NOON, failures=2)
    assert door.is_open
    door = report(door, POLICY, Report(door.epoch, failures=1, reason="refused"), at(1))
    assert (door.state, door.since, door.reason) == (DoorState.DOWN, at(1), "refused")
    assert admit(door, POLICY, 100, at(30)).wait_until == at(31)
    probe = admit(door, POLICY, 100, at(31))
    assert (probe.granted, probe.is_probe) == (1, True)
    healed = answered(probe.door, at(33))
    assert healed.is_untroubled
    assert admit(healed, POLICY, 5, at(33)).granted == 5


def test_an_answer_between_failures_starts_the_count_again() -> None:
    door = answered(failed(OPEN, NOON, failures=2), at(1))
    assert (door.failures, door.state) == (0, DoorState.OPEN)
    assert failed(door, at(2), failures=2).is_open


def test_while_one_probe_is_in_progress_no_other_call_is_admitted() -> None:
    probing = probed(DOWN)
    for seconds in (30, 31, 45, 59.5):
        other = admit(probing, POLICY, 100, at(seconds))
        assert other.granted == 0
        assert other.wait_until == at(min(seconds + PROBE_LOOK_SECONDS, 60))
        assert other.door == probing


def test_a_failed_probe_closes_the_door_again_at_once() -> None:
    again = failed(probed(DOWN), at(31))
    assert (again.state, again.opens_at, again.probe_until) == (DoorState.DOWN, at(61), None)
    assert again.since == NOON
    assert again.epoch == DOWN.epoch + 1


def test_a_probe_that_is_throttled_says_that_the_target_can_be_reached() -> None:
    door = throttled(probed(DOWN), at(30), retry_after=40)
    assert (door.state, door.opens_at) == (DoorState.THROTTLED, at(70))


def test_a_probe_that_cannot_connect_finds_a_throttled_target_down() -> None:
    door = failed(probed(THROTTLED), at(1))
    assert (door.state, door.opens_at) == (DoorState.DOWN, at(31))


def test_a_probe_whose_worker_died_is_followed_by_another() -> None:
    probing = probed(DOWN)
    assert admit(probing, POLICY, 1, at(60)).granted == 1


def test_a_probe_that_was_no_call_is_given_back_and_the_next_one_tries_at_once() -> None:
    probing = probed(DOWN)
    unused = report(probing, POLICY, Report(probing.epoch, unused=1), at(31))
    assert (unused.state, unused.epoch) == (DoorState.DOWN, DOWN.epoch)
    again = admit(unused, POLICY, 1, at(31))
    assert (again.granted, again.is_probe) == (1, True)


def test_an_unused_probe_says_nothing_of_an_open_door() -> None:
    troubled = failed(OPEN, NOON)
    assert report(troubled, POLICY, Report(troubled.epoch, unused=1), at(1)) == troubled


def test_a_report_of_nothing_changes_nothing() -> None:
    for door in (OPEN, DOWN, THROTTLED, probed(DOWN)):
        assert report(door, POLICY, Report(door.epoch), at(1)) == door


# epochs


CALLS = st.builds(
    Report,
    st.just(OPEN.epoch),
    answered=st.integers(0, 5),
    failures=st.integers(0, 50),
    throttled=st.integers(0, 5),
    unused=st.integers(0, 2),
    in_flight=st.integers(0, 40),
)


@given(CALLS)
def test_reports_of_calls_admitted_before_the_door_closed_are_ignored(stale: Report) -> None:
    for door in (DOWN, THROTTLED, probed(DOWN), probed(THROTTLED), answered(probed(DOWN), at(40))):
        assert report(door, POLICY, stale, at(45)) == door


@given(st.lists(st.tuples(CALLS, st.booleans(), st.floats(0, 20)), max_size=40))
def test_whatever_is_reported_the_door_holds_together(
    story: list[tuple[Report, bool, float]],
) -> None:
    door, now = OPEN, 0.0
    for seen, is_news, pause in story:
        now += pause
        before = door
        door = admit(door, POLICY, 5, at(now)).door
        door = report(door, POLICY, replace(seen, epoch=door.epoch - (not is_news)), at(now))
        assert door.is_open == (door.opens_at is None)
        assert door.is_open == (door.since is None)
        assert door.slots is None or door.slots >= 1
        assert door.epoch >= before.epoch
        # It is never closed for longer than its longest wait, whatever happened to it.
        assert door.opens_at is None or door.opens_at <= at(now + POLICY.breaker_seconds)
        assert door.probe_until is None or not door.is_open


def test_each_closing_starts_a_new_epoch_and_opening_does_not() -> None:
    door = probed(DOWN)
    assert (DOWN.epoch, door.epoch) == (1, 1)
    door = failed(door, at(31))
    assert door.epoch == 2
    door = answered(probed(door), at(70))
    assert (door.is_open, door.epoch) == (True, 2)
    assert throttled(door, at(71)).epoch == 3


# slots


def test_slots_halve_each_time_an_open_door_is_throttled() -> None:
    door, now, slots = OPEN, NOON, []
    for _ in range(5):
        door = throttled(door, now, in_flight=16)
        slots.append(door.slots)
        now = opening(door)
        door = answered(probed(door), now)
        door = replace(door, slots_at=at(10**6))
    assert slots == [8, 4, 2, 1, 1]


def test_fewer_calls_than_slots_that_are_too_many_halve_what_was_out() -> None:
    few = replace(OPEN, slots=20, slots_at=NOON)
    assert throttled(few, NOON, in_flight=6).slots == 3


def test_a_probe_that_is_throttled_halves_nothing() -> None:
    door = throttled(OPEN, NOON, in_flight=16)
    assert throttled(probed(door), at(1), in_flight=1).slots == 8


def test_failures_to_reach_it_say_nothing_of_slots() -> None:
    assert DOWN.slots is None
    few = replace(OPEN, slots=8, slots_at=NOON)
    assert failed(few, NOON, failures=3).slots == 8


def test_slots_grow_again_while_it_answers_and_no_faster_than_agreed() -> None:
    door = answered(probed(throttled(OPEN, NOON, in_flight=20)), at(1))
    assert door.slots == 12
    found = []
    for step in range(1, 13):
        door = answered(door, at(1 + step * SLOTS_GROW_SECONDS / 2))
        found.append(door.slots)
    assert found == [12, 14, 14, 16, 16, 18, 18, 20, 20, 23, 23, 26]


# an operator


def test_a_reset_door_is_open_and_its_alert_is_closed() -> None:
    for door in (DOWN, THROTTLED, probed(DOWN), replace(OPEN, failures=2, slots=3, slots_at=NOON)):
        anew = reset(door, at(5))
        assert anew.is_untroubled
        assert admit(anew, POLICY, 5, at(5)).granted == 5


def test_reports_of_calls_admitted_before_a_reset_are_ignored() -> None:
    probing = probed(DOWN)
    anew = reset(probing, at(31))
    assert anew.epoch == probing.epoch + 1
    assert report(anew, POLICY, Report(probing.epoch, failures=5), at(32)) == anew


def test_a_reset_refills_no_tokens() -> None:
    empty = admit(OPEN, POLICY, 10, NOON).door
    assert admit(reset(empty, NOON), POLICY, 1, NOON).granted == 0


# shares


@given(
    st.integers(1, 40),
    st.lists(st.integers(1, 20), min_size=1, max_size=12),
    st.lists(st.integers(0, 11), max_size=60),
)
def test_no_order_of_renewals_hands_out_more_than_there_are(
    slots: int, wants: list[int], renewals: list[int]
) -> None:
    holders = len(wants)
    parts = [0] * holders
    for turn in renewals:
        place = turn % holders
        others = sum(parts) - parts[place]
        parts[place] = share_of(slots, wants[place], place, holders, others)
        assert 0 <= parts[place] <= wants[place]
        assert sum(parts) <= slots


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.lists(st.integers(1, 20), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_after_slots_changed_one_renewal_each_is_enough_and_two_are_fair(
    before: int, after: int, wants: list[int], chance: Random
) -> None:
    holders = len(wants)
    parts = [before // holders + (place < before % holders) for place in range(holders)]
    for _ in range(2):
        for place in chance.sample(range(holders), holders):
            others = sum(parts) - parts[place]
            parts[place] = share_of(after, wants[place], place, holders, others)
        assert sum(parts) <= after
    even = [after // holders + (place < after % holders) for place in range(holders)]
    assert parts == [min(want, part) for want, part in zip(wants, even, strict=True)]


def test_a_single_worker_gets_all_the_slots_it_asks_for() -> None:
    assert share_of(5, 16, 0, 1, 0) == 5
    assert share_of(5, 3, 0, 1, 0) == 3


def test_a_newcomer_waits_until_the_others_have_left_it_its_part() -> None:
    assert share_of(8, 16, 1, 2, 8) == 0
    assert share_of(8, 16, 0, 2, 0) == 4
    assert share_of(8, 16, 1, 2, 4) == 4


# an outage


@dataclass
class Item:
    submitted_at: float
    deadline: float
    accepted_at: float | None = None


@dataclass
class Target:
    """A target that is down for a while, and what waits for it. A call takes no time, and what is
    too late is ended by the clock alone, as the deadline expirer does."""

    policy: TargetPolicy
    down_from: float
    down_until: float
    door: Door = OPEN
    waiting: list[Item] = field(default_factory=list)
    calls_in_vain: int = 0

    def moment(self, now: float) -> float:
        """Call what may be called; when to look again."""
        self.waiting = [each for each in self.waiting if now < each.deadline]
        while self.waiting:
            admission = admit(self.door, self.policy, len(self.waiting), at(now))
            self.door = admission.door
            if admission.wait_until is not None:
                return max((admission.wait_until - NOON).total_seconds(), now + 0.001)
            if not self._call(self.waiting[: admission.granted], now) and self.door.is_open:
                return now + RETRY_SECONDS
        return float("inf")

    def _call(self, admitted: list[Item], now: float) -> bool:
        """Whether it answers."""
        is_down, epoch = self.down_from <= now < self.down_until, self.door.epoch
        for each in admitted:
            if self.door.epoch != epoch:
                # It closed meanwhile: who has not begun does not begin.
                break
            if is_down:
                self.calls_in_vain += 1
                seen = Report(epoch, failures=1)
            else:
                each.accepted_at = now
                seen = Report(epoch, answered=1)
            self.door = report(self.door, self.policy, seen, at(now))
        self.waiting = [each for each in self.waiting if each.accepted_at is None]
        return not is_down


RETRY_SECONDS = 1.0


@given(
    outage_seconds=st.floats(1, 300),
    deadline_seconds=st.floats(0.5, 120),
    pause_seconds=st.floats(0.2, 20),
    breaker_seconds=st.floats(1, 30),
)
@example(outage_seconds=45, deadline_seconds=30, pause_seconds=0.25, breaker_seconds=15)
# Two intents a second, with the deadline of contract 001's registry.
@example(outage_seconds=5, deadline_seconds=30, pause_seconds=0.5, breaker_seconds=15)
@example(outage_seconds=45, deadline_seconds=30, pause_seconds=0.5, breaker_seconds=15)
@example(outage_seconds=300, deadline_seconds=30, pause_seconds=0.5, breaker_seconds=15)
def test_after_an_outage_of_any_length_everything_in_time_is_accepted_again(
    outage_seconds: float, deadline_seconds: float, pause_seconds: float, breaker_seconds: float
) -> None:
    """Whatever the deadline is, and however much or little is sent meanwhile."""
    begin, end = 10.0, 10.0 + outage_seconds
    policy = TargetPolicy(breaker_failures=5, breaker_seconds=breaker_seconds)
    target, items = Target(policy, begin, end), list[Item]()
    back = end + max(breaker_seconds, RETRY_SECONDS) + 0.001
    now, arrival, look = 0.0, 0.0, float("inf")
    while now <= back + 2 * pause_seconds:
        now = min(arrival, look)
        if now == arrival:
            items.append(Item(now, now + deadline_seconds))
            target.waiting.append(items[-1])
            arrival += pause_seconds
        look = target.moment(now)

    for item in items:
        if not begin <= item.submitted_at < back:
            assert item.accepted_at == item.submitted_at
        elif item.deadline > back:
            assert item.accepted_at is not None
            assert item.accepted_at <= max(back, item.submitted_at)
    probes = outage_seconds / breaker_seconds + 1
    assert target.calls_in_vain <= policy.breaker_failures + probes
