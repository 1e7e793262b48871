"""Bars as inline SVG: counts go in, rectangles that share one width come out.

Bars stretch with the page, so they carry no text; what they mean stands beside them in HTML.
"""

from collections.abc import Mapping

from outrider.phases.report_words import plain

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


def stacked_bar(counts: Mapping[str, int], whole: int, *, style: str, label: str) -> str:
    """One bar of several outcomes; `whole` is what its full width stands for."""
    pieces = [f'<rect class="track" width="{WIDTH:.0f}" height="10"/>']
    left = 0.0
    shares = widths(counts, max(whole, 1))
    for place, (name, width) in enumerate(shares.items(), start=1):
        drawn = width - GAP if place < len(shares) else width
        pieces.append(
            f'<rect class="{OUTCOMES.get(name, "skipped")}" x="{left:.2f}" width="{drawn:.2f}"'
            f' height="10"/>'
        )
        left += width
    return (
        f'<svg class="{style}" viewBox="0 0 {WIDTH:.0f} 10" preserveAspectRatio="none" role="img"'
        f' aria-label="{plain(label)}">{"".join(pieces)}</svg>'
    )


def swatch(name: str) -> str:
    style = OUTCOMES.get(name, "skipped")
    return (
        f'<svg viewBox="0 0 10 10" aria-hidden="true">'
        f'<rect class="{style}" width="10" height="10"/></svg>'
    )
