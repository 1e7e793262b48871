"""Clocks that a test moves: one that only moves on request, and one for another process."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

from outrider.system import SystemClock


class FakeClock:
    """`sleep` yields to other tasks without letting time pass; only `advance` does that."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start
        self._passed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._passed

    def advance(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
        self._passed += seconds

    async def sleep(self, seconds: float) -> None:  # noqa: ARG002 - time is the test's to move
        await asyncio.sleep(0)


class ShiftedClock(SystemClock):
    """The real clock, offset by as many seconds as a file says: for servers in another process."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def now(self) -> datetime:
        shift = float(self._file.read_text()) if self._file.exists() else 0.0
        return super().now() + timedelta(seconds=shift)

    @staticmethod
    def shift(file: Path, seconds: float) -> None:
        """Renamed into place: a concurrent reader never sees half of it."""
        beside = file.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.replace(file)
