"""Bars as inline SVG: counts go in, rectangles that share one width come out.

Bars stretch with the page, so they carry no text; the legend is beside them in HTML.
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
"""The style class of each outcome; others have no colour."""


def outcome_style(name: str) -> str:
    return OUTCOMES.get(name, "skipped")


def widths(counts: Mapping[str, int], whole: int) -> dict[str, float]:
    """Each share of the width. Non-zero shares get a visible minimum, taken from the largest."""
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
    """One bar of several outcomes; `whole` is the count for its full width."""
    drawn, left = [], 0.0
    shares = widths(counts, max(whole, 1))
    for place, (name, width) in enumerate(shares.items(), start=1):
        seen = width - GAP if place < len(shares) else width
        drawn.append(
            {"outcome": outcome_style(name), "left": f"{left:.2f}", "width": f"{seen:.2f}"}
        )
        left += width
    return drawn
