"""Return paths: a bounce finds its item, and nobody can make one up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.errors import InvalidInput
from outrider.domain.return_paths import (
    LOCAL_PART_MAX_OCTETS,
    NAME_MAX_CHARACTERS,
    ReturnPath,
    make_token,
    read_token,
)

KEY, OTHER = b"k" * 32, b"o" * 32
PATH = ReturnPath.parse("Bounces@Mail.Example")
LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz-_=+. "
REFERENCES = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(REFERENCES)
def test_an_address_gives_its_reference_back_in_any_case(reference: str) -> None:
    address = PATH.address(KEY, reference)
    local = address.partition("@")[0]
    assert len(local) == LOCAL_PART_MAX_OCTETS
    for written in (address, address.upper(), address.lower(), f"<{address}>", f"{address}."):
        assert PATH.reference_in([OTHER, KEY], written) == reference


@given(REFERENCES)
def test_another_key_reads_nothing(reference: str) -> None:
    token = make_token(KEY, reference)
    assert token is not None
    assert read_token([OTHER], token) is None
    assert read_token([], token) is None


@given(
    REFERENCES, st.integers(0, 55), st.sampled_from("0123456789abcdefghijklmnopqrstuvwxyz-_=+. ")
)
def test_a_changed_token_belongs_to_nobody(reference: str, place: int, letter: str) -> None:
    token = make_token(KEY, reference)
    assert token is not None
    changed = token[:place] + letter + token[place + 1 :]
    assert (read_token([KEY], changed) == reference) is (changed == token)
    if changed != token:
        assert read_token([KEY], changed) is None


@given(st.text(max_size=80))
def test_any_text_can_be_tried(text: str) -> None:
    assert read_token([KEY], text) is None
    assert PATH.reference_in([KEY], text) is None
    assert PATH.reference_in([KEY], f"bounces+{text}@mail.example") is None


def test_a_reference_that_is_not_ours_has_the_bare_address() -> None:
    assert PATH.address(KEY, "mine") == "bounces@mail.example"
    assert PATH.token_in("bounces@mail.example") == ""
    assert PATH.token_in("bounces@other.example") is None
    assert PATH.token_in("abuse@mail.example") is None


@pytest.mark.parametrize(
    "text", ["", "bounces", "a b@mail.example", "b+c@mail.example", "ünter@mail.example"]
)
def test_a_return_path_is_a_plain_address(text: str) -> None:
    with pytest.raises(InvalidInput):
        ReturnPath.parse(text)


def test_a_return_path_leaves_room_for_the_token() -> None:
    ReturnPath.parse("b" * NAME_MAX_CHARACTERS + "@mail.example")
    with pytest.raises(InvalidInput):
        ReturnPath.parse("b" * (NAME_MAX_CHARACTERS + 1) + "@mail.example")
