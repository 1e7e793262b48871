"""API keys as text and as permission."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrider.domain.ids import DEFAULT_SCOPE, uuid7_batch
from outrider.domain.keys import (
    KeyId,
    KeyScope,
    Principal,
    allows,
    is_secret,
    key_text,
    parse_key,
    secret_digest,
)

KEY_ID = KeyId("01890a5d-ac96-774b-bcce-b302099a8057")
SECRET = bytes(range(32))
TEXT = "outrider_01890a5dac96774bbcceb302099a8057_" + SECRET.hex()


def test_the_text_of_a_key_is_its_id_and_its_secret_in_hex() -> None:
    assert key_text(KEY_ID, SECRET) == TEXT


@given(st.binary(min_size=8, max_size=8), st.binary(min_size=32, max_size=32))
def test_what_was_written_is_read_back(noise: bytes, secret: bytes) -> None:
    [made] = uuid7_batch(1_700_000_000_000, noise)
    presented = parse_key(key_text(KeyId(made), secret))
    assert presented is not None
    assert (presented.key_id, presented.secret) == (made, secret)


@pytest.mark.parametrize(
    "text",
    [
        "", "outrider", TEXT[:-1], TEXT + "0", TEXT + "\n", " " + TEXT, TEXT.upper(),
        TEXT.replace("outrider", "inrider"), TEXT.replace("_", "-"), "outrider__", "\ud800",
        TEXT.replace("0189", "g189"), f"outrider_{KEY_ID}_{SECRET.hex()}", TEXT[:-2] + "é",
        TEXT[:-1] + "\u0660",
    ],
)  # fmt: skip
def test_any_other_text_is_no_key(text: str) -> None:
    assert parse_key(text) is None


@given(st.text())
def test_no_text_breaks_the_reading(text: str) -> None:
    assert parse_key(text) is None


def test_a_secret_is_kept_as_its_salted_hmac() -> None:
    assert secret_digest(b"salt", SECRET) == hmac.digest(b"salt", SECRET, hashlib.sha256)
    digest = secret_digest(b"salt", SECRET)
    assert is_secret(SECRET, b"salt", digest)
    assert not is_secret(SECRET, b"other", digest)
    assert not is_secret(SECRET[:-1] + b"!", b"salt", digest)


def test_the_secret_is_not_part_of_what_is_printed() -> None:
    presented = parse_key(TEXT)
    assert SECRET.hex() not in repr(presented)
    assert repr(SECRET)[2:-1] not in repr(presented)


def test_admin_includes_operate_and_operate_includes_read() -> None:
    for granted, reach in [
        (set(), set()),
        ({KeyScope.READ}, {KeyScope.READ}),
        ({KeyScope.OPERATE}, {KeyScope.READ, KeyScope.OPERATE}),
        ({KeyScope.ADMIN}, set(KeyScope)),
        ({KeyScope.READ, KeyScope.ADMIN}, set(KeyScope)),
    ]:
        assert {needed for needed in KeyScope if allows(granted, needed)} == reach


def test_a_principal_is_called_after_its_key_in_the_audit_log() -> None:
    principal = Principal(DEFAULT_SCOPE, KEY_ID, "ci", frozenset({KeyScope.OPERATE}))
    assert principal.actor == "key:ci"
    assert principal.allows(KeyScope.READ)
    assert not principal.allows(KeyScope.ADMIN)
