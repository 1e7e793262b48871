"""The event streams that are open: counted, limited, and told to end when the server stops."""

import asyncio

from prometheus_client import Gauge

from outrider.api.errors import ApiError
from outrider.settings import ApiLimits


class Streams:
    def __init__(self, limits: ApiLimits, gauge: Gauge) -> None:
        self._limits = limits
        self._gauge = gauge
        self.closing = asyncio.Event()
        self.count = 0

    def enter(self) -> None:
        """Take a place; whoever takes one leaves it."""
        if self.closing.is_set() or self.count >= self._limits.streams:
            raise ApiError(
                503,
                "TOO_MANY_STREAMS",
                "no more event streams can be opened here now",
                headers={"Retry-After": str(self._limits.retry_after_seconds)},
            )
        self.count += 1
        self._gauge.set(self.count)

    def leave(self) -> None:
        self.count -= 1
        self._gauge.set(self.count)

    def close(self) -> None:
        """Every stream ends after the event it is at; its client resumes elsewhere."""
        self.closing.set()
