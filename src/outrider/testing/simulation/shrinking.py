"""Cutting a failing world down: which of its happenings the failure needs, found by halves."""

from collections.abc import Callable, Sequence

TRIES_MOST = 80
"""Worlds that one failure is worth."""


def fewest(names: Sequence[str], still_fails: Callable[[Sequence[str]], bool]) -> list[str]:
    """Leave out halves, then smaller and smaller parts, as long as what is left still fails."""
    kept, parts, tries = list(names), 2, 0
    while kept and tries < TRIES_MOST:
        size = max(1, len(kept) // parts)
        for start in range(0, len(kept), size):
            tries += 1
            left = kept[:start] + kept[start + size :]
            if still_fails(left):
                kept, parts = left, max(2, parts - 1)
                break
            if tries >= TRIES_MOST:
                break
        else:
            if size == 1:
                break
            parts = min(len(kept), parts * 2)
    return kept
