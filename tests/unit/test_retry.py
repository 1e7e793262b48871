"""Retry schedules: their numbers, their caps, and what a provider's Retry-After may change."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.retry import DIRECT, JOB, RETRY_AFTER_CAP_SECONDS, RetrySchedule
from outrider.domain.workflow_retry import WorkflowRetry

attempts = st.integers(min_value=1, max_value=10**9)
jitters = st.floats(min_value=0, max_value=1, exclude_max=True)
schedules = st.builds(
    RetrySchedule,
    first_seconds=st.floats(min_value=0.001, max_value=600),
    factor=st.floats(min_value=1, max_value=10),
    cap_seconds=st.floats(min_value=1, max_value=86_400),
    jitter_share=st.floats(min_value=0, max_value=1),
)

WORKFLOW = WorkflowRetry().patience.schedule


@given(attempts)
def test_direct_intents_wait_five_seconds_each_time(number: int) -> None:
    assert DIRECT.delay_seconds(number) == 5.0


def test_workflow_items_wait_1_2_4_8_16_minutes() -> None:
    minutes = [WORKFLOW.delay_seconds(number) / 60 for number in range(1, 6)]
    assert minutes == [1, 2, 4, 8, 16]


@given(st.integers(min_value=7, max_value=10**9))
def test_workflow_items_never_wait_more_than_an_hour(number: int) -> None:
    assert WORKFLOW.delay_seconds(number) == 3_600


def test_jobs_wait_twice_as_long_each_time_up_to_five_minutes() -> None:
    assert [JOB.delay_seconds(number) for number in range(1, 6)] == [1, 2, 4, 8, 16]
    assert JOB.delay_seconds(10**6) == 300


@given(schedules, attempts, jitters)
def test_a_delay_stays_between_zero_and_its_cap_with_jitter(
    schedule: RetrySchedule, number: int, jitter: float
) -> None:
    delay = schedule.delay_seconds(number, jitter=jitter)
    most = schedule.cap_seconds * (1 + schedule.jitter_share)
    # The same number, rounded on another way.
    assert 0 < delay < most or math.isclose(delay, most)


@given(schedules, attempts)
def test_a_delay_never_shrinks_from_one_attempt_to_the_next(
    schedule: RetrySchedule, number: int
) -> None:
    assert schedule.delay_seconds(number) <= schedule.delay_seconds(number + 1)


@given(schedules, attempts, jitters)
def test_jitter_only_ever_adds(schedule: RetrySchedule, number: int, jitter: float) -> None:
    assert schedule.delay_seconds(number, jitter=jitter) >= schedule.delay_seconds(number)


@given(attempts, st.floats(min_value=5, max_value=RETRY_AFTER_CAP_SECONDS))
def test_a_longer_retry_after_is_honoured(number: int, retry_after: float) -> None:
    assert DIRECT.delay_seconds(number, retry_after_seconds=retry_after) == retry_after


@given(attempts, st.floats(min_value=0, max_value=5))
def test_a_shorter_retry_after_does_not_hurry_the_schedule(number: int, retry_after: float) -> None:
    assert DIRECT.delay_seconds(number, retry_after_seconds=retry_after) == 5


@given(attempts, st.floats(min_value=RETRY_AFTER_CAP_SECONDS, allow_infinity=True))
def test_a_retry_after_of_years_is_believed_for_an_hour(number: int, retry_after: float) -> None:
    delay = DIRECT.delay_seconds(number, retry_after_seconds=retry_after)
    assert delay == RETRY_AFTER_CAP_SECONDS


def test_a_retry_before_any_attempt_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="at least one attempt"):
        DIRECT.delay_seconds(0)
