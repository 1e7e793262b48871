"""Time, randomness and identity as the kernel sees them, so that tests can control them."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The time in UTC."""
        ...

    def monotonic(self) -> float:
        """Monotonic seconds, unaffected by changes of the clock."""
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
