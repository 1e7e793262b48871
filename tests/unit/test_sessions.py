"""Tokens of sessions: they say what was signed, and nobody can make one up."""

from datetime import UTC, datetime

import pytest

from outrider.domain.keys import KeyId
from outrider.domain.sessions import (
    NONCE_BYTES,
    SECRET_BYTES,
    TOKEN_CHARACTERS,
    SignedSession,
    csrf_token,
    make_token,
    read_token,
)

SECRET, OTHER = bytes(range(SECRET_BYTES)), bytes(SECRET_BYTES)
KEY = KeyId("019f0000-0000-7000-8000-000000000001")
UNTIL = datetime(2026, 6, 1, 20, tzinfo=UTC)
ROOT_KEY = "a root key of some length"
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def token(
    *, secret: bytes = SECRET, key_id: KeyId | None = KEY, nonce: int = 7, root: str | None = None
) -> str:
    return make_token(secret, key_id, UNTIL, bytes([nonce] * NONCE_BYTES), root)


def test_a_token_says_what_was_signed() -> None:
    assert read_token(SECRET, token(), None) == SignedSession(KEY, UNTIL)
    root = token(key_id=None, root=ROOT_KEY)
    assert read_token(SECRET, root, ROOT_KEY) == SignedSession(None, UNTIL)
    assert len(token()) == TOKEN_CHARACTERS


def test_no_character_can_be_changed() -> None:
    good = token()
    for place, character in enumerate(good):
        for other in (ALPHABET[(ALPHABET.index(character) + 1) % 64], "A", "_"):
            changed = good[:place] + other + good[place + 1 :]
            if changed != good:
                assert read_token(SECRET, changed, None) is None, place


@pytest.mark.parametrize(
    "text",
    ["", "x", token()[:-1], token() + "A", token() + "=", f" {token()}", token() * 2, "é" * 98,
     token().replace("A", "+", 1), "\x00" * TOKEN_CHARACTERS, "A" * TOKEN_CHARACTERS],
)  # fmt: skip
def test_an_invalid_token_belongs_to_nobody(text: str) -> None:
    assert read_token(SECRET, text, None) is None


def test_a_token_of_another_database_belongs_to_nobody() -> None:
    assert read_token(SECRET, token(secret=OTHER), None) is None


def test_a_session_of_the_root_key_ends_when_it_is_changed() -> None:
    root = token(key_id=None, root=ROOT_KEY)
    assert read_token(SECRET, root, "another root key") is None
    assert read_token(SECRET, root, None) is None


def test_a_session_of_a_key_does_not_depend_on_the_root_key() -> None:
    assert read_token(SECRET, token(root=ROOT_KEY), "another root key") is not None


def test_each_session_has_its_own_token_against_forgery() -> None:
    mine, yours = token(nonce=1), token(nonce=2)
    assert csrf_token(SECRET, mine) != csrf_token(SECRET, yours)
    assert csrf_token(SECRET, mine) != csrf_token(OTHER, mine)
    # What a page may read must not be what the cookie is signed with.
    assert csrf_token(SECRET, mine) not in mine
