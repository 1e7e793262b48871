"""Sessions of the console: who signed in and until when, signed so that nobody can make one up.

A token is base64url of a version, the key's id, the expiry and some random bytes, and HMAC-SHA256
over them. Nothing is kept of it: the key behind it is looked up with every request.
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
"""What is signed begins with what it is for, so that no signature serves twice."""
_NO_KEY = bytes(_UUID_BYTES)
_TEXT = re.compile(r"[A-Za-z0-9_-]+\Z")


class SignedSession(NamedTuple):
    """What a token of ours says. `key_id` is None for the root key, which has no record."""

    key_id: KeyId | None
    expires_at: datetime


def make_token(
    secret: bytes, key_id: KeyId | None, expires_at: datetime, nonce: bytes, root_key: str | None
) -> str:
    """A session of the root key is signed for that very key, and ends when it is changed."""
    assert len(nonce) == NONCE_BYTES
    named = _NO_KEY if key_id is None else uuid.UUID(key_id).bytes
    expires = int(expires_at.timestamp()).to_bytes(_TIME_BYTES)
    said = b"".join((_VERSION, named, expires, nonce))
    return _text(said + _signature(secret, said, root_key))


def read_token(secret: bytes, text: str, root_key: str | None) -> SignedSession | None:
    """None unless it is exactly what `make_token` made; nearly right takes as long as wrong.

    Whether it has expired, and whether its key is still good, is for the reader to judge.
    """
    raw = _bytes(text)
    if raw is None:
        return None
    said, signature = raw[:_SAID_BYTES], raw[_SAID_BYTES:]
    if not hmac.compare_digest(_signature(secret, said, root_key), signature):
        return None
    if said[:1] != _VERSION:
        return None
    named = said[1 : 1 + _UUID_BYTES]
    expires = int.from_bytes(said[1 + _UUID_BYTES : 1 + _UUID_BYTES + _TIME_BYTES])
    key_id = None if named == _NO_KEY else KeyId(str(uuid.UUID(bytes=named)))
    return SignedSession(key_id, datetime.fromtimestamp(expires, UTC))


def csrf_token(secret: bytes, token: str) -> str:
    """What a page of ours sends beside the cookie, and a page of somebody else's cannot know."""
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
    # Spare bits of the last character would give one token several spellings.
    return raw if _text(raw) == text else None
