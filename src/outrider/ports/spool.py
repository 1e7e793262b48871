"""The spool port: what could not be written to the store in time, safe on this machine."""

from collections.abc import Sequence
from typing import Protocol


class Spool(Protocol):
    async def put(self, content: bytes) -> None:
        """Durable once this returns."""
        ...

    async def names(self, most: int) -> Sequence[str]:
        """The oldest entries, including those of dead processes."""
        ...

    async def read(self, name: str) -> bytes | None:
        """None if another process has handled it meanwhile."""
        ...

    async def remove(self, name: str) -> None: ...

    async def set_aside(self, name: str) -> None:
        """Set an unusable entry aside, so that it is not read again."""
        ...
