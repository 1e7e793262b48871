"""A clock that stands still until a test moves it."""

import asyncio
from datetime import UTC, datetime, timedelta


class FakeClock:
    """`sleep` gives way to other tasks without letting time pass; only `advance` does that."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - time is the test's to move
        await asyncio.sleep(0)
