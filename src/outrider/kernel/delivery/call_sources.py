"""Where the items of one route come from: a fixed list, or items that arrive during delivery."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

Element = TypeVar("Element")
ElementToCome = TypeVar("ElementToCome", covariant=True)


class Source(Protocol[ElementToCome]):
    """The items of one route, in the order in which they will be called."""

    def waiting(self) -> int:
        """How many could be called now."""
        ...

    async def prepare(self) -> None:
        """Do slow preparation before items are taken, once it is known that some will be."""
        ...

    def take(self, most: int) -> Sequence[ElementToCome]: ...

    async def more(self) -> bool:
        """Wait until there may be more; False: there will be none."""
        ...


class Listed(Generic[Element]):
    """A source whose items are all known at the start."""

    def __init__(self, elements: Sequence[Element]) -> None:
        self._elements = elements
        self._taken = 0

    def waiting(self) -> int:
        return len(self._elements) - self._taken

    async def prepare(self) -> None:
        pass

    def take(self, most: int) -> Sequence[Element]:
        taken = self._elements[self._taken : self._taken + most]
        self._taken += len(taken)
        return taken

    async def more(self) -> bool:
        return False
