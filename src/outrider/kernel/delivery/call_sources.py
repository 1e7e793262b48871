"""Where the items of one route come from: a list, or what arrives while others are called."""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

Element = TypeVar("Element")
ElementToCome = TypeVar("ElementToCome", covariant=True)


class Source(Protocol[ElementToCome]):
    """Where the items of one route come from, in the order in which they are to be called."""

    def waiting(self) -> int:
        """How many could be called now."""
        ...

    async def prepare(self) -> None:
        """Whatever takes its time before items can be taken, once it is known that some will be."""
        ...

    def take(self, most: int) -> Sequence[ElementToCome]: ...

    async def more(self) -> bool:
        """Wait until there may be more; False: there will be none."""
        ...


class Listed(Generic[Element]):
    """A source that is known from the beginning."""

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
