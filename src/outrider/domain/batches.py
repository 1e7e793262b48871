"""Batches: bound, in items and in bytes, what is held in memory or sent in one statement."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def windows(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """In order, `most` items each; the last may be shorter."""
    stream = iter(items)
    while window := list(islice(stream, most)):
        yield window


def in_parts(
    items: Sequence[Item],
    weight: Callable[[Item], int],
    most: int,
    most_items: int | None = None,
) -> Iterator[list[Item]]:
    """In order, each part weighing at most `most`; a heavier item gets a part to itself."""
    part: list[Item] = []
    total = 0
    for item in items:
        own = weight(item)
        if part and (total + own > most or len(part) == most_items):
            yield part
            part, total = [], 0
        part.append(item)
        total += own
    if part:
        yield part
