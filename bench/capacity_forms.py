"""Formatting for docs/explanation/capacity.md: sections, rounded figures, paragraphs."""

import re
import textwrap
from collections.abc import Sequence

import capacity_model as model

WIDTH = 100


def section(title: str, text: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows]]
    return f"## {title}\n\n{text}\n\n" + "\n".join(lines)


def wait(day: model.Day) -> str:
    """The longest wait, for a table."""
    if not day.keeps_up:
        return "longer every day"
    seconds = day.worst_delay_seconds
    if seconds < 1:
        return "none"
    return f"{seconds / 60:,.0f} min" if seconds >= 90 else f"{seconds:,.0f} s"


def gigabytes(size: float) -> str:
    return rounded(size / model.GIGABYTE)


def rounded(found: float) -> str:
    return f"{found:,.0f}" if found >= 10 else f"{found:,.1f}"


def about(figure: float) -> str:
    """In hundreds: more digits would suggest more precision than a measurement has."""
    return f"{round(figure, -2):,.0f}"


def short(count: float) -> str:
    for size, word in ((1_000_000_000, "billion"), (1_000_000, "million")):
        if count >= size:
            return f"{count / size:,.0f} {word}"
    return f"{count:,.0f}"


def flowed(text: str) -> str:
    """Wraps paragraphs and lists to one width; headings, tables and pictures are unchanged."""
    blocks = []
    for block in text.split("\n\n"):
        if block.startswith(("#", "|", "!")):
            blocks.append(block)
            continue
        items = re.split(r"\n(?=- |\d\. )", block)
        blocks.append("\n".join(_filled(item) for item in items))
    return "\n\n".join(blocks)


def _filled(item: str) -> str:
    mark = re.match(r"- |\d\. ", item)
    return textwrap.fill(
        " ".join(item.split()), WIDTH, subsequent_indent=" " * len(mark[0] if mark else ""),
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip
