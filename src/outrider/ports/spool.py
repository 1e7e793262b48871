"""The spool port: what could not be written to the store in time, safe on this machine."""

from collections.abc import Sequence
from typing import Protocol


class Spool(Protocol):
    async def put(self, content: bytes) -> None:
        """Durable once this returns."""
        ...

    async def names(self, most: int) -> Sequence[str]:
        """The oldest entries, those of processes that died included."""
        ...

    async def read(self, name: str) -> bytes | None:
        """None where somebody else has dealt with it meanwhile."""
        ...

    async def remove(self, name: str) -> None: ...

    async def set_aside(self, name: str) -> None:
        """Keep an entry that cannot be used where nobody trips over it again."""
        ...
