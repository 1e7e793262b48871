"""Batches: what is held in memory, or sent in one statement, is bounded, in bytes too."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def windows(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    """In order, each of `most` items; the last may be shorter."""
    stream = iter(items)
    while window := list(islice(stream, most)):
        yield window


def in_parts(
    items: Sequence[Item],
    weight: Callable[[Item], int],
    most: int,
    most_items: int | None = None,
) -> Iterator[list[Item]]:
    """In order, each part as heavy as `most` at most; what is heavier alone is alone."""
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
