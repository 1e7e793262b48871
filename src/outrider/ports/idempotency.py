"""The idempotency port: who asks first under a key executes, everybody after gets that answer."""

from dataclasses import dataclass
from typing import Protocol

from outrider.domain.ids import Scope


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An HTTP answer as it was given the first time, errors included."""

    status: int
    media_type: str
    body: str


@dataclass(frozen=True, slots=True)
class Yours:
    """Nobody asked under this key: execute, then `finish`, or `abandon` if it came to nothing.

    `owner` proves it: a record that somebody else took over meanwhile is not ours to finish.
    """

    owner: str


@dataclass(frozen=True, slots=True)
class Running:
    """Somebody is at it."""


@dataclass(frozen=True, slots=True)
class OtherRequest:
    """The key was used for another request."""


Claimed = Yours | Running | OtherRequest | StoredAnswer


class IdempotencyStore(Protocol):
    async def claim(self, scope: Scope, key: str, fingerprint: str) -> Claimed:
        """Atomic: of any number of callers, one is told `Yours`.

        Who claimed and vanished is replaced after `running_seconds`; an answer is kept for
        `ttl_seconds` from the moment it was finished.
        """
        ...

    async def finish(self, scope: Scope, key: str, owner: str, answer: StoredAnswer) -> None: ...

    async def abandon(self, scope: Scope, key: str, owner: str) -> None:
        """Let the next one try: nothing was executed, or the server failed."""
        ...

    async def close(self) -> None: ...
