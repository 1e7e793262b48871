"""A target's door: tokens, slow-down and breaker, over any sequence of moments."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.targets import Breaker, Report, TargetPolicy, TargetState, admit, report

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
POLICY = TargetPolicy(rate_per_second=10, burst=10, breaker_failures=3, breaker_seconds=30)
CLOSED = TargetState(10.0, NOON)


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def test_a_full_bucket_grants_its_burst_and_then_says_when_the_next_token_comes() -> None:
    first = admit(CLOSED, POLICY, 25, NOON)
    assert (first.granted, first.wait_until) == (10, None)
    second = admit(first.state, POLICY, 15, NOON)
    assert (second.granted, second.wait_until) == (0, at(0.1))
    assert admit(second.state, POLICY, 15, at(0.5)).granted == 5


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(1, 50)), max_size=60))
def test_no_sequence_of_requests_gets_more_than_burst_plus_rate(
    asks: list[tuple[float, int]],
) -> None:
    state, now, granted = CLOSED, 0.0, 0
    for pause, want in asks:
        now += pause
        admission = admit(state, POLICY, want, at(now))
        state, granted = admission.state, granted + admission.granted
        assert admission.granted <= want
        assert (admission.granted == 0) == (admission.wait_until is not None)
    assert granted <= 10 + 10 * now + 1e-6


def test_a_clock_that_goes_back_takes_no_tokens_away() -> None:
    assert admit(CLOSED, POLICY, 5, at(-7200)).granted == 5


def test_without_a_rate_all_are_admitted() -> None:
    assert admit(CLOSED, TargetPolicy(), 10_000, NOON).granted == 10_000


def test_retry_after_closes_the_door_for_everybody_until_then() -> None:
    slowed = report(CLOSED, POLICY, Report(retry_after_seconds=20), NOON)
    assert admit(slowed, POLICY, 1, at(19)).wait_until == at(20)
    assert admit(slowed, POLICY, 1, at(20)).granted == 1
    shorter = report(slowed, POLICY, Report(retry_after_seconds=1), at(5))
    assert shorter.resume_at == at(20)


def test_the_breaker_opens_after_consecutive_failures_and_one_probe_closes_it() -> None:
    state = report(CLOSED, POLICY, Report(failures=2), NOON)
    assert state.breaker is Breaker.CLOSED
    state = report(state, POLICY, Report(failures=1), at(1))
    assert state.breaker is Breaker.OPEN
    assert admit(state, POLICY, 100, at(30)).wait_until == at(31)
    probe = admit(state, POLICY, 100, at(31))
    assert (probe.granted, probe.state.breaker) == (1, Breaker.PROBING)
    assert admit(probe.state, POLICY, 100, at(32)).wait_until == at(61)
    healed = report(probe.state, POLICY, Report(answered=1), at(33))
    assert healed.is_untroubled
    assert admit(healed, POLICY, 5, at(33)).granted == 5


def test_a_failed_probe_opens_the_breaker_again_at_once() -> None:
    state = report(CLOSED, POLICY, Report(failures=3), NOON)
    probing = admit(state, POLICY, 1, at(30)).state
    again = report(probing, POLICY, Report(failures=1), at(31))
    assert (again.breaker, again.probe_at) == (Breaker.OPEN, at(61))


def test_a_probe_whose_worker_died_is_followed_by_another() -> None:
    state = report(CLOSED, POLICY, Report(failures=3), NOON)
    probing = admit(state, POLICY, 1, at(30)).state
    assert admit(probing, POLICY, 1, at(60)).granted == 1


def test_an_answer_between_failures_starts_the_count_again() -> None:
    state = report(CLOSED, POLICY, Report(failures=2), NOON)
    state = report(state, POLICY, Report(answered=1, failures=5), at(1))
    assert (state.failures, state.breaker) == (0, Breaker.CLOSED)
