"""How many bytes of request bodies a server holds at once: in total, and per workspace.

A body that does not fit waits a little, and is then refused before any of it is read.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from outrider.api.errors import ApiError
from outrider.domain.ids import Scope
from outrider.limits.api import ApiLimits


class BodyBudget:
    def __init__(self, total_bytes: int, workspace_bytes: int, limits: ApiLimits) -> None:
        self._total_bytes = total_bytes
        self._workspace_bytes = workspace_bytes
        self._limits = limits
        self._held: Counter[Scope] = Counter()
        self._freed = asyncio.Condition()

    @asynccontextmanager
    async def holding(self, scope: Scope, size_bytes: int) -> AsyncIterator[None]:
        async with self._freed:
            try:
                async with asyncio.timeout(self._limits.body_wait_seconds):
                    await self._freed.wait_for(lambda: self._fits(scope, size_bytes))
            except TimeoutError:
                raise self._refusal(scope, size_bytes) from None
            self._held[scope] += size_bytes
        try:
            yield
        finally:
            async with self._freed:
                self._held[scope] -= size_bytes
                self._held = +self._held
                self._freed.notify_all()

    def _fits(self, scope: Scope, size_bytes: int) -> bool:
        return self._is_within_share(scope, size_bytes) and (
            self._held.total() + size_bytes <= self._total_bytes
        )

    def _is_within_share(self, scope: Scope, size_bytes: int) -> bool:
        """One body is always admitted, whatever its size; the route has its own limit for that."""
        mine = self._held[scope]
        return not mine or mine + size_bytes <= self._workspace_bytes

    def _refusal(self, scope: Scope, size_bytes: int) -> ApiError:
        ours = self._is_within_share(scope, size_bytes)
        return ApiError(
            503 if ours else 429,
            "TOO_MANY_BODIES",
            f"{'this server' if ours else 'this workspace'} has too many large requests in"
            " progress",
            hint="send fewer at once, or try again in a moment",
            # None of the body was read, so the connection cannot be reused.
            headers={
                "Retry-After": str(self._limits.retry_after_seconds),
                "Connection": "close",
            },
        )
