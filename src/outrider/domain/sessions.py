"""Console sessions: who signed in and until when, signed against forgery.

A token is base64url of a version, the key's id, the expiry and some random bytes, and HMAC-SHA256
over them. It is not stored: its key is looked up with every request.
"""

import base64
import binascii
import hmac
import re
import uuid
from datetime import UTC, datetime
from typing import Final, NamedTuple

from outrider.domain.keys import KeyId

SECRET_BYTES: Final = 32
NONCE_BYTES: Final = 16

_VERSION = b"\x01"
_UUID_BYTES = 16
_TIME_BYTES = 8
_SIGNATURE_BYTES = 32
_SAID_BYTES = len(_VERSION) + _UUID_BYTES + _TIME_BYTES + NONCE_BYTES
TOKEN_CHARACTERS: Final = -(-(_SAID_BYTES + _SIGNATURE_BYTES) * 4 // 3)

_OF_SESSION, _OF_CSRF = b"session\x00", b"csrf\x00"
"""Signed data begins with its purpose, so that no signature is valid for another."""
_NO_KEY = bytes(_UUID_BYTES)
_TEXT = re.compile(r"[A-Za-z0-9_-]+\Z")


class SignedSession(NamedTuple):
    """The contents of a token. `key_id` is None for the root key, which has no record."""

    key_id: KeyId | None
    expires_at: datetime


def make_token(
    secret: bytes, key_id: KeyId | None, expires_at: datetime, nonce: bytes, root_key: str | None
) -> str:
    """A session of the root key is signed with that key, and ends when the key changes."""
    assert len(nonce) == NONCE_BYTES
    named = _NO_KEY if key_id is None else uuid.UUID(key_id).bytes
    expires = int(expires_at.timestamp()).to_bytes(_TIME_BYTES)
    signed = b"".join((_VERSION, named, expires, nonce))
    return _text(signed + _signature(secret, signed, root_key))


def read_token(secret: bytes, text: str, root_key: str | None) -> SignedSession | None:
    """None unless it is exactly what `make_token` made; checked in constant time.

    The caller checks whether it has expired and whether its key is still valid.
    """
    raw = _bytes(text)
    if raw is None:
        return None
    signed, signature = raw[:_SAID_BYTES], raw[_SAID_BYTES:]
    if not hmac.compare_digest(_signature(secret, signed, root_key), signature):
        return None
    if signed[:1] != _VERSION:
        return None
    named = signed[1 : 1 + _UUID_BYTES]
    expires = int.from_bytes(signed[1 + _UUID_BYTES : 1 + _UUID_BYTES + _TIME_BYTES])
    key_id = None if named == _NO_KEY else KeyId(str(uuid.UUID(bytes=named)))
    return SignedSession(key_id, datetime.fromtimestamp(expires, UTC))


def csrf_token(secret: bytes, token: str) -> str:
    """Sent by our own pages beside the cookie; other sites' pages cannot know it."""
    return _text(hmac.digest(secret, _OF_CSRF + token.encode(), "sha256"))


def _signature(secret: bytes, said: bytes, root_key: str | None) -> bytes:
    is_root = said[len(_VERSION) : len(_VERSION) + _UUID_BYTES] == _NO_KEY
    bound = (root_key or "").encode(errors="surrogatepass") if is_root else b""
    return hmac.digest(secret, _OF_SESSION + said + bound, "sha256")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes | None:
    if len(text) != TOKEN_CHARACTERS or not _TEXT.match(text):
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    # Unused bits of the last character would give one token several spellings.
    return raw if _text(raw) == text else None
