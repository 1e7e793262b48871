"""Texts from strangers: what a database cannot keep is spelt out, all else stays as it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.texts import storable

anything = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF))


@given(anything)
def test_a_storable_text_has_bytes_and_no_nul(text: str) -> None:
    kept = storable(text)
    assert kept is not None
    assert b"\0" not in kept.encode()


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_storable_text_is_kept_unchanged(text: str) -> None:
    assert storable(text) == text


@pytest.mark.parametrize(
    ("text", "kept"),
    [("a\0b", "a\\x00b"), ("a\udcffb", "a\\udcffb"), ("550-no\n550 never", "550-no\n550 never")],
)
def test_unstorable_characters_are_escaped(text: str, kept: str) -> None:
    assert storable(text) == kept


def test_nothing_stays_nothing() -> None:
    assert storable(None) is None
