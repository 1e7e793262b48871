"""The idempotency port: the first request under a key executes, every later one gets its answer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from outrider.domain.ids import Scope
from outrider.ports.store import Result, Transaction


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """An HTTP response as it was first given, errors included."""

    status: int
    media_type: str
    body: str


@dataclass(frozen=True, slots=True)
class Yours:
    """The key is unused: execute, then `finish`, or `abandon` if nothing was done.

    `owner` proves the claim: a record that was taken over meanwhile must not be finished.
    """

    owner: str


@dataclass(frozen=True, slots=True)
class Running:
    """Another request is executing under this key."""


@dataclass(frozen=True, slots=True)
class OtherRequest:
    """The key was used for another request."""


Claimed = Yours | Running | OtherRequest | StoredAnswer


class KeyUsed(Exception):
    """Raised inside a guarded transaction, which then changes nothing: the key is already used."""

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
    transaction. Requests that need several transactions claim the key first and finish it
    afterwards."""

    def guarded(
        self,
        key: RequestKey,
        script: Transaction[Result],
        answer_of: Callable[[Result], StoredAnswer],
    ) -> Transaction[Result]:
        """The script, with the key taken before it and its answer stored after it, in one
        transaction.

        Raises KeyUsed if the key is taken; a concurrent one waits for the first's transaction,
        which ends at the latest when its server dies.
        """
        ...

    async def keep(self, key: RequestKey, answer: StoredAnswer) -> StoredAnswer | OtherRequest:
        """Store the answer of a request that changed nothing; an earlier one wins, and is
        returned."""
        ...

    async def claim(self, key: RequestKey) -> Claimed:
        """Atomic: of any number of callers, exactly one gets `Yours`.

        A claimant that vanished is replaced after `running_seconds`; an answer is kept for
        `ttl_seconds` after it was finished.
        """
        ...

    async def renew(self, key: RequestKey, owner: str) -> None:
        """Still executing: extends the claim by another `running_seconds`."""
        ...

    async def finish(self, key: RequestKey, owner: str, answer: StoredAnswer) -> None: ...

    async def abandon(self, key: RequestKey, owner: str) -> None:
        """Release the key: nothing was executed, or the server failed."""
        ...


class AnswerCache(Protocol):
    """A cache of answers that is faster than the database. It may be unavailable."""

    async def find(self, key: RequestKey) -> StoredAnswer | OtherRequest | None: ...

    async def put(self, key: RequestKey, answer: StoredAnswer) -> None:
        """The first answer under a key is kept."""
        ...

    async def reach(self) -> None:
        """Raises StoreUnavailable unless it answers."""
        ...

    async def close(self) -> None: ...
