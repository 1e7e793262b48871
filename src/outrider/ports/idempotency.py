"""The idempotency port: who asks first under a key executes, everybody after gets that answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from outrider.domain.ids import Scope
from outrider.ports.store import Result, Transaction


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


class KeyUsed(Exception):
    """Raised inside a guarded transaction, which then changes nothing: the key is somebody's."""

    def __init__(self, found: Running | OtherRequest | StoredAnswer) -> None:
        super().__init__("the idempotency key was already used")
        self.found = found


@dataclass(frozen=True, slots=True)
class RequestKey:
    """One request's key. `name` is the client's key together with the method and path it is for;
    `fingerprint` is everything else that makes a repeat the same request."""

    scope: Scope
    name: str
    fingerprint: str


class IdempotencyStore(Protocol):
    """Keys of requests. A control is guarded: its key, its change and its answer are one
    transaction. What takes several transactions claims its key first and finishes it afterwards.
    """

    def guarded(
        self,
        key: RequestKey,
        script: Transaction[Result],
        answer_of: Callable[[Result], StoredAnswer],
    ) -> Transaction[Result]:
        """The script, with the key taken before it and its answer kept after it, all in one.

        Raises KeyUsed where somebody had the key; a second one at the same time waits for the
        first's transaction, which ends with its server's life at the latest.
        """
        ...

    async def keep(self, key: RequestKey, answer: StoredAnswer) -> StoredAnswer | OtherRequest:
        """Keep the answer of a request that changed nothing; an earlier one wins, and is told."""
        ...

    async def claim(self, key: RequestKey) -> Claimed:
        """Atomic: of any number of callers, one is told `Yours`.

        Who claimed and vanished is replaced after `running_seconds`; an answer is kept for
        `ttl_seconds` from the moment it was finished.
        """
        ...

    async def renew(self, key: RequestKey, owner: str) -> None:
        """Still at it: the claim stands for another `running_seconds`."""
        ...

    async def finish(self, key: RequestKey, owner: str, answer: StoredAnswer) -> None: ...

    async def abandon(self, key: RequestKey, owner: str) -> None:
        """Let the next one try: nothing was executed, or the server failed."""
        ...


class AnswerCache(Protocol):
    """Answers once more, where they are found faster than in the database. It may be away."""

    async def find(self, key: RequestKey) -> StoredAnswer | OtherRequest | None: ...

    async def put(self, key: RequestKey, answer: StoredAnswer) -> None:
        """The first answer under a key stays."""
        ...

    async def reach(self) -> None:
        """StoreUnavailable unless it answers."""
        ...

    async def close(self) -> None: ...
