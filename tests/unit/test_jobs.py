"""Settling a job: the outcome rules of contract 000, and that every tally has one settlement."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.jobs import Completed, Parked, Tally, Unfinished, job_outcome, settle
from outrider.domain.states import JobOutcome

LATER = datetime(2026, 1, 1, 12, tzinfo=UTC)
# Small, so that tallies where most parts are nought are common: those are where rules differ.
few = st.integers(min_value=0, max_value=2)


@st.composite
def tallies(draw: st.DrawFn) -> Tally:
    """Tallies that a ledger can really hold: the parts add up to what is intended."""
    succeeded, failed, skipped, in_doubt, opened, retrying, unreserved = (
        draw(few) for _ in range(7)
    )
    intended = succeeded + failed + skipped + in_doubt + opened + retrying + unreserved
    due = LATER if retrying else None
    return Tally(intended, succeeded, failed, skipped, in_doubt, opened, retrying, due)


@given(tallies())
def test_a_tally_adds_up_to_what_is_intended(tally: Tally) -> None:
    parts = tally.terminal + tally.in_doubt + tally.open + tally.retrying + tally.unreserved
    assert parts == tally.intended
    assert tally.unreserved >= 0


@given(tallies())
def test_a_job_completes_only_when_every_item_is_terminal(tally: Tally) -> None:
    assert isinstance(settle(tally), Completed) == (tally.terminal == tally.intended)


@given(tallies())
def test_a_job_is_unfinished_while_items_are_unreserved_or_calls_are_out(tally: Tally) -> None:
    settlement = settle(tally)
    assert isinstance(settlement, Unfinished) == (tally.unreserved > 0 or tally.open > 0)
    if isinstance(settlement, Unfinished):
        assert settlement == Unfinished(tally.unreserved, tally.open)


def test_a_job_whose_items_were_never_reserved_is_unfinished_whatever_the_rest_is() -> None:
    assert settle(Tally(1)) == Unfinished(1, 0)
    assert settle(Tally(2, succeeded=1)) == Unfinished(1, 0)
    assert settle(Tally(2, in_doubt=1)) == Unfinished(1, 0)
    assert settle(Tally(2, retrying=1, next_attempt_at=LATER)) == Unfinished(1, 0)


@given(tallies())
def test_a_job_with_a_retry_to_come_is_parked_until_it_is_due(tally: Tally) -> None:
    if tally.retrying and not tally.unreserved and not tally.open:
        assert settle(tally) == Parked(LATER)


@given(tallies())
def test_a_job_with_only_doubts_left_is_parked_until_a_verdict(tally: Tally) -> None:
    if tally.in_doubt and tally.terminal + tally.in_doubt == tally.intended:
        assert settle(tally) == Parked(None)


@pytest.mark.parametrize(
    ("tally", "outcome"),
    [
        (Tally(3, succeeded=3), JobOutcome.COMPLETED),
        (Tally(3, succeeded=1, skipped=2), JobOutcome.COMPLETED),
        (Tally(3, skipped=3), JobOutcome.COMPLETED),
        (Tally(3, succeeded=1, failed=2), JobOutcome.PARTIAL),
        (Tally(3, succeeded=1, failed=1, skipped=1), JobOutcome.PARTIAL),
        (Tally(3, failed=3), JobOutcome.FAILED),
        (Tally(3, failed=2, skipped=1), JobOutcome.FAILED),
    ],
)
def test_an_outcome_follows_contract_000s_invariant_3(tally: Tally, outcome: JobOutcome) -> None:
    assert job_outcome(tally) is outcome
    assert settle(tally) == Completed(outcome)


@given(tallies())
def test_a_job_without_failures_never_fails_and_one_without_success_is_never_partial(
    tally: Tally,
) -> None:
    outcome = job_outcome(tally)
    nothing_missing = tally.failed == 0 and tally.unended == 0
    assert (outcome is JobOutcome.COMPLETED) == nothing_missing
    assert (outcome is JobOutcome.PARTIAL) == (not nothing_missing and tally.succeeded > 0)


@given(tallies())
def test_a_stopped_job_waits_for_no_verdict(tally: Tally) -> None:
    """B2: stop always ends a run; what is in doubt stays in doubt, and is no success."""
    settlement = settle(tally, stopped=True)
    if tally.terminal + tally.in_doubt == tally.intended:
        assert settlement == Completed(job_outcome(tally))
        assert not tally.in_doubt or settlement.outcome is not JobOutcome.COMPLETED
    else:
        assert settlement == settle(tally)
