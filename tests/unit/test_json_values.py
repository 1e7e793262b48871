"""Two spellings of one JSON value are the same value; two values never are."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.json_values import is_same

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20
)


@given(values)
def test_a_value_is_the_same_after_it_was_written_in_another_order(value: Any) -> None:
    assert is_same(value, json.loads(json.dumps(value, sort_keys=True)))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "1.0", True),
        ("1E2", "100", True),
        ('{"a": 1, "b": 2}', '{"b": 2.0, "a": 1}', True),
        ("1", "true", False),
        ("0", "false", False),
        ("0", "null", False),
        ('"1"', "1", False),
        ("[1, 2]", "[2, 1]", False),
        ("[1]", "[1, 1]", False),
        ('{"a": null}', "{}", False),
        ('{"a": {"b": [1, {"c": 2}]}}', '{"a": {"b": [1, {"c": 3}]}}', False),
    ],
)
def test_spelling_makes_no_difference_and_everything_else_does(
    one: str, other: str, same: bool
) -> None:
    assert is_same(json.loads(one), json.loads(other)) is same
