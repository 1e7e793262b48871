"""Batches by weight: nothing is lost or reordered, and no part is heavier than it may be."""

from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.batches import in_parts


@given(st.lists(st.integers(0, 20)), st.integers(1, 30), st.none() | st.integers(1, 5))
def test_every_item_is_in_one_part_and_no_part_is_too_heavy(
    weights: list[int], most: int, most_items: int | None
) -> None:
    parts = list(in_parts(weights, lambda weight: weight, most, most_items))
    assert [weight for part in parts for weight in part] == weights
    for part in parts:
        assert len(part) == 1 or sum(part) <= most
        assert most_items is None or len(part) <= most_items


def test_an_oversized_item_is_a_batch_of_its_own() -> None:
    assert list(in_parts([1, 9, 1], lambda weight: weight, 5)) == [[1], [9], [1]]
