"""Of several routes that wait, the one that opens first says when the job is looked at again."""

from datetime import timedelta

import pytest

from outrider.kernel.delivery.window_outcomes import Deferred, Done, earliest
from outrider.testing.store_suite.workshop import NOON

SOON, LATER = Deferred(NOON), Deferred(NOON + timedelta(seconds=5))


@pytest.mark.parametrize(
    ("known", "passage", "expected"),
    [
        (None, SOON, SOON),
        (LATER, SOON, SOON),
        (SOON, LATER, SOON),
    ],
)
def test_the_earlier_of_two_times_counts(
    known: Deferred | None, passage: Deferred, expected: Deferred
) -> None:
    assert earliest(known, passage) == expected


@pytest.mark.parametrize("known", [None, SOON])
def test_a_route_that_is_done_waits_for_nothing(known: Deferred | None) -> None:
    assert earliest(known, Done()) == known
