"""Idempotency in the database: of concurrent claimers one executes, the others get its answer.

A record is valid until its `expires_at`; after that it counts as absent.
"""

from collections.abc import Callable
from datetime import timedelta

import msgspec

from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import idempotency
from outrider.kernel.transactions.idempotency import OthersRecord
from outrider.limits.access import IDEMPOTENCY_PRUNE_ITEMS
from outrider.ports.idempotency import (
    Claimed,
    KeyUsed,
    OtherRequest,
    RequestKey,
    Running,
    StoredAnswer,
    Yours,
)
from outrider.ports.store import Result, Transaction


class DatabaseIdempotency:
    def __init__(self, foundation: Foundation, ttl_seconds: float, running_seconds: float) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._ttl = timedelta(seconds=ttl_seconds)
        self._running = timedelta(seconds=running_seconds)

    def guarded(
        self,
        key: RequestKey,
        script: Transaction[Result],
        answer_of: Callable[[Result], StoredAnswer],
    ) -> Transaction[Result]:
        now = self._clock.now()
        return idempotency.guarded(
            key, script, lambda result: _text(answer_of(result)),
            lambda found: KeyUsed(_read(key, found)),
            self._ids.new(), now + self._ttl, IDEMPOTENCY_PRUNE_ITEMS, now,
        )  # fmt: skip

    async def keep(self, key: RequestKey, answer: StoredAnswer) -> StoredAnswer | OtherRequest:
        now = self._clock.now()
        found = await self._store.write(
            idempotency.keep(
                key, self._ids.new(), _text(answer), now + self._ttl, IDEMPOTENCY_PRUNE_ITEMS, now
            )
        )
        earlier = None if found is None else _read(key, found)
        return answer if earlier is None or isinstance(earlier, Running) else earlier

    async def claim(self, key: RequestKey) -> Claimed:
        owner, now = self._ids.new(), self._clock.now()
        found = await self._store.write(
            idempotency.claim(key, owner, now + self._running, IDEMPOTENCY_PRUNE_ITEMS, now)
        )
        return Yours(owner) if found is None else _read(key, found)

    async def renew(self, key: RequestKey, owner: str) -> None:
        expires_at = self._clock.now() + self._running
        await self._store.write(idempotency.renew(key, owner, expires_at))

    async def finish(self, key: RequestKey, owner: str, answer: StoredAnswer) -> None:
        expires_at = self._clock.now() + self._ttl
        await self._store.write(idempotency.finish(key, owner, _text(answer), expires_at))

    async def abandon(self, key: RequestKey, owner: str) -> None:
        await self._store.write(idempotency.abandon(key, owner))


def _read(key: RequestKey, found: OthersRecord) -> Running | OtherRequest | StoredAnswer:
    if found.fingerprint != key.fingerprint:
        return OtherRequest()
    if found.answer is None:
        return Running()
    return msgspec.json.decode(found.answer, type=StoredAnswer)


def _text(answer: StoredAnswer) -> str:
    return msgspec.json.encode(answer).decode()
