"""The open event streams: counted, limited, and ended when the server stops.

One key, and one workspace, may have only some of them, so that it cannot shut out the others.
"""

import asyncio
from collections import Counter

from prometheus_client import Gauge

from outrider.api.errors import ApiError
from outrider.domain.ids import Scope
from outrider.domain.keys import KeyId, Principal
from outrider.limits.api import ApiLimits

TOO_MANY = 429


class Streams:
    def __init__(self, limits: ApiLimits, gauge: Gauge) -> None:
        self._limits = limits
        self._gauge = gauge
        self.closing = asyncio.Event()
        self._of_key: Counter[tuple[Scope, KeyId]] = Counter()
        self._of_workspace: Counter[Scope] = Counter()

    @property
    def count(self) -> int:
        return self._of_workspace.total()

    def enter(self, who: Principal) -> None:
        """Take a slot; the caller must release it."""
        limits = self._limits
        if self._of_key[who.scope, who.key_id] >= limits.streams_per_key:
            raise self._refusal(
                TOO_MANY, f"this key has {limits.streams_per_key} event streams open"
            )
        if self._of_workspace[who.scope] >= limits.streams_per_workspace:
            most = limits.streams_per_workspace
            raise self._refusal(TOO_MANY, f"this workspace has {most} event streams open")
        if self.closing.is_set() or self.count >= limits.streams:
            raise self._refusal(503, "no more event streams can be opened on this server now")
        self._of_key[who.scope, who.key_id] += 1
        self._of_workspace[who.scope] += 1
        self._gauge.set(self.count)

    def leave(self, who: Principal) -> None:
        self._of_key[who.scope, who.key_id] -= 1
        self._of_workspace[who.scope] -= 1
        # Zero counts are dropped, not kept for every key that ever watched.
        self._of_key, self._of_workspace = +self._of_key, +self._of_workspace
        self._gauge.set(self.count)

    def _refusal(self, status: int, message: str) -> ApiError:
        hint = "close one, or watch several campaigns in one stream: GET /api/v2/stream"
        return ApiError(
            status,
            "TOO_MANY_STREAMS",
            message,
            hint=hint if status == TOO_MANY else None,
            headers={"Retry-After": str(self._limits.retry_after_seconds)},
        )

    def close(self) -> None:
        """Every stream ends after its current event; its client resumes elsewhere."""
        self.closing.set()
