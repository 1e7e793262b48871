"""Bars as inline SVG: counts go in, rectangles that share one width come out.

Bars stretch with the page, so they carry no text; what they mean stands beside them in HTML.
"""

from collections.abc import Mapping

WIDTH = 1_000.0
SEEN_AT_LEAST = 6.0
GAP = 2.0

OUTCOMES = {
    "sent": "sent",
    "failed": "failed",
    "skipped": "skipped",
    "queued": "waiting",
    "waiting": "waiting",
    "in doubt": "doubt",
}
"""The style class of each outcome; what is not in it has no colour of its own."""


def outcome_style(name: str) -> str:
    return OUTCOMES.get(name, "skipped")


def widths(counts: Mapping[str, int], whole: int) -> dict[str, float]:
    """Each share of the width. What is there at all can be seen, and is taken from the largest."""
    shares = {
        name: max(SEEN_AT_LEAST, count / whole * WIDTH)
        for name, count in counts.items()
        if count > 0
    }
    excess = sum(shares.values()) - WIDTH
    if excess > 0:
        largest = max(shares, key=lambda name: shares[name])
        shares[largest] -= excess
    return shares


def pieces(counts: Mapping[str, int], whole: int) -> list[dict[str, str]]:
    """One bar of several outcomes; `whole` is what its full width stands for."""
    drawn, left = [], 0.0
    shares = widths(counts, max(whole, 1))
    for place, (name, width) in enumerate(shares.items(), start=1):
        seen = width - GAP if place < len(shares) else width
        drawn.append(
            {"outcome": outcome_style(name), "left": f"{left:.2f}", "width": f"{seen:.2f}"}
        )
        left += width
    return drawn
