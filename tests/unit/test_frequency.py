"""The frequency cap: how often one address is written to."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.frequency import SendHistory, free_again
from outrider.domain.screen_policies import FrequencyCap

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
CAP = FrequencyCap(messages=3, per_hours=24)


def ago(hours: float) -> datetime:
    return NOW - timedelta(hours=hours)


def test_below_the_cap_a_message_goes() -> None:
    assert free_again(CAP, [], NOW) is None
    assert free_again(CAP, [ago(1), ago(2)], NOW) is None


def test_at_the_cap_it_waits_until_the_oldest_leaves_the_period() -> None:
    assert free_again(CAP, [ago(1), ago(20), ago(5)], NOW) == ago(20) + CAP.period


def test_a_message_exactly_one_period_old_no_longer_counts() -> None:
    assert free_again(CAP, [ago(1), ago(5), ago(24)], NOW) is None


def test_beyond_the_cap_it_waits_until_enough_have_left() -> None:
    """Urgent messages go beyond it, and count."""
    heard = [ago(1), ago(2), ago(3), ago(10), ago(20)]
    assert free_again(CAP, heard, NOW) == ago(3) + CAP.period


def test_an_admitted_message_counts_towards_the_cap_of_later_ones() -> None:
    hearing = SendHistory()
    hearing.note("email", "a@example.test", ago(2))
    let_through = 0
    while hearing.free_again(CAP, "email", "A@example.test", NOW) is None:
        hearing.note("email", "a@Example.test", NOW)
        let_through += 1
    assert let_through == 2
    assert hearing.free_again(CAP, "email", "a@example.test", NOW) == ago(2) + CAP.period
    assert hearing.free_again(CAP, "sms", "a@example.test", NOW) is None
    assert hearing.free_again(CAP, "email", "b@example.test", NOW) is None


@given(
    heard=st.lists(st.floats(0, 100), max_size=20),
    messages=st.integers(1, 6),
    per_hours=st.integers(1, 60),
)
def test_an_item_may_go_at_the_time_it_waits_for_and_not_before(
    heard: list[float], messages: int, per_hours: int
) -> None:
    cap = FrequencyCap(messages, per_hours)
    moments = [ago(hours) for hours in heard]
    until = free_again(cap, moments, NOW)
    if until is None:
        assert sum(moment > NOW - cap.period for moment in moments) < messages
    else:
        assert free_again(cap, moments, until) is None
        assert free_again(cap, moments, until - timedelta(microseconds=1)) == until
