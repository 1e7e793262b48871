"""API keys: their format, what they allow, and how a secret is checked against its stored hash.

`outrider_<id>_<secret>`: the id finds the record, the secret is 256 random bits shown once.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NewType

from outrider.domain.ids import Scope

KeyId = NewType("KeyId", str)

KEY_SECRET_BYTES = 32
KEY_SALT_BYTES = 16

_TEXT = re.compile(
    r"outrider_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})"
    r"_([0-9a-f]{64})\Z"
)


class KeyScope(StrEnum):
    """What a key may do; each one includes those before it."""

    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


_RANK = {scope: rank for rank, scope in enumerate(KeyScope)}


def allows(granted: Iterable[KeyScope], needed: KeyScope) -> bool:
    return any(_RANK[scope] >= _RANK[needed] for scope in granted)


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A key as presented; nothing is proven yet."""

    key_id: KeyId
    secret: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller."""

    scope: Scope
    key_id: KeyId
    name: str
    scopes: frozenset[KeyScope]
    kind: str = "key"

    @property
    def actor(self) -> str:
        """For the audit log and the logs of runs."""
        return f"{self.kind}:{self.name}"

    def allows(self, needed: KeyScope) -> bool:
        return allows(self.scopes, needed)


def key_text(key_id: KeyId, secret: bytes) -> str:
    assert len(secret) == KEY_SECRET_BYTES
    return f"outrider_{key_id.replace('-', '')}_{secret.hex()}"


def parse_key(text: str) -> PresentedKey | None:
    """None unless it is exactly in the format that `key_text` produces."""
    found = _TEXT.match(text)
    if found is None:
        return None
    *of_id, secret = found.groups()
    return PresentedKey(KeyId("-".join(of_id)), bytes.fromhex(secret))


def secret_digest(salt: bytes, secret: bytes) -> bytes:
    """One round is enough: 256 random bits cannot be guessed at any speed."""
    return hmac.new(salt, secret, hashlib.sha256).digest()


def is_secret(secret: bytes, salt: bytes, digest: bytes) -> bool:
    """Constant time: a nearly correct secret takes as long as any other."""
    return hmac.compare_digest(secret_digest(salt, secret), digest)
