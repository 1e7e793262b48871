"""Idempotency in the database: one of many claimers executes, the others get its answer.

For as long as `expires_at` lies ahead a record stands; behind, it is as good as gone.
"""

from datetime import timedelta

import msgspec

from outrider.domain.ids import Scope
from outrider.kernel.transactions import idempotency
from outrider.ports.clock import Clock, IdSource
from outrider.ports.idempotency import Claimed, OtherRequest, Running, StoredAnswer, Yours
from outrider.ports.store import Store
from outrider.settings import IDEMPOTENCY_PRUNE_ITEMS


class DatabaseIdempotency:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        ttl_seconds: float,
        running_seconds: float,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._ttl = timedelta(seconds=ttl_seconds)
        self._running = timedelta(seconds=running_seconds)

    async def claim(self, scope: Scope, key: str, fingerprint: str) -> Claimed:
        owner, now = self._ids.new(), self._clock.now()
        found = await self._store.write(
            idempotency.claim(
                scope, key, fingerprint, owner, now + self._running, IDEMPOTENCY_PRUNE_ITEMS, now
            )
        )
        if found is None:
            return Yours(owner)
        if found.fingerprint != fingerprint:
            return OtherRequest()
        if found.answer is None:
            return Running()
        return msgspec.json.decode(found.answer, type=StoredAnswer)

    async def finish(self, scope: Scope, key: str, owner: str, answer: StoredAnswer) -> None:
        text = msgspec.json.encode(answer).decode()
        expires_at = self._clock.now() + self._ttl
        await self._store.write(idempotency.finish(scope, key, owner, text, expires_at))

    async def abandon(self, scope: Scope, key: str, owner: str) -> None:
        await self._store.write(idempotency.abandon(scope, key, owner))

    async def close(self) -> None:
        """The store is not ours to close."""
