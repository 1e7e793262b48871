"""The answer finder: looks up stored answers in a cache that may be down.

After a failure the cache is skipped for a few seconds, so one request pays for the timeout rather
than all of them. The first lookup after that notices that it is back.
"""

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.ports.clock import Clock
from outrider.ports.idempotency import AnswerCache, OtherRequest, RequestKey, StoredAnswer

log = structlog.get_logger()


class AnswerFinder:
    def __init__(self, cache: AnswerCache | None, clock: Clock, rest_seconds: float) -> None:
        self._cache = cache
        self._clock = clock
        self._rest_seconds = rest_seconds
        self._rests_until: float | None = None

    async def find(self, key: RequestKey) -> StoredAnswer | OtherRequest | None:
        if self._cache is None or self._is_skipped():
            return None
        try:
            found = await self._cache.find(key)
        except StoreUnavailable as error:
            self._lost(error)
            return None
        self._is_back()
        return found

    async def put(self, key: RequestKey, answer: StoredAnswer) -> None:
        if self._cache is None or self._is_skipped():
            return
        try:
            await self._cache.put(key, answer)
        except StoreUnavailable as error:
            self._lost(error)
        else:
            self._is_back()

    async def is_away(self) -> bool:
        """Whether a cache is configured and does not respond."""
        if self._cache is None:
            return False
        if self._is_skipped():
            return True
        try:
            await self._cache.reach()
        except StoreUnavailable as error:
            self._lost(error)
            return True
        self._is_back()
        return False

    async def close(self) -> None:
        if self._cache is not None:
            try:
                await self._cache.close()
            except StoreUnavailable as error:
                log.warning("redis_not_closed", error=error.message)

    def _is_skipped(self) -> bool:
        return self._rests_until is not None and self._clock.monotonic() < self._rests_until

    def _lost(self, error: StoreUnavailable) -> None:
        if self._rests_until is None:
            log.warning(
                "redis_unavailable", error=error.message,
                effect="idempotency keys are only looked up in the database",
            )  # fmt: skip
        self._rests_until = self._clock.monotonic() + self._rest_seconds

    def _is_back(self) -> None:
        if self._rests_until is not None:
            log.info("redis_available")
            self._rests_until = None
