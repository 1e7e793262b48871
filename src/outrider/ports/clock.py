"""Time, randomness and identity as the kernel sees them, so that tests can hold them still."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, which no change of the clock moves."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class IdSource(Protocol):
    def new(self) -> str:
        """One UUIDv7."""
        ...

    def batch(self, count: int) -> list[str]: ...

    def jitter(self) -> float:
        """A random number in [0, 1)."""
        ...
