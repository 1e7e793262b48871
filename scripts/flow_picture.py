"""Writes docs/images/flow.svg, README's picture of how a campaign becomes provider calls."""

from pathlib import Path

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "flow.svg"

WIDTH, HEIGHT = 920, 330
STAGES = ("claim", "load", "screen", "render", "reserve", "open", "call", "close", "settle")
DURABLE = {"reserve", "open", "close", "settle", "claim"}
INK, PAPER, LINE = "#1f2933", "#ffffff", "#9aa5b1"
FILL = {True: "#d9f2e6", False: "#eef2f6"}


def box(x: int, y: int, width: int, height: int, fill: str, *lines: str) -> str:
    middle = y + height / 2 - (len(lines) - 1) * 9 + 5
    texts = "".join(
        f'<text x="{x + width / 2}" y="{middle + 18 * index}"'
        f' font-weight="{600 if index == 0 else 400}">{line}</text>'
        for index, line in enumerate(lines)
    )
    shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}"/>'
    return shape + texts


def arrow(x1: int, y1: int, x2: int, y2: int) -> str:
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#tip)"/>'


def picture() -> str:
    step, width = 98, 88
    stages = [
        box(24 + step * index, 150, width, 44, FILL[stage in DURABLE], stage)
        for index, stage in enumerate(STAGES)
    ]
    joins = [
        arrow(24 + step * index + width, 172, 24 + step * (index + 1), 172)
        for index in range(len(STAGES) - 1)
    ]
    parts = [
        box(24, 24, 180, 60, FILL[False], "campaign", "audience and messages"),
        box(290, 24, 220, 60, FILL[True], "run and jobs, queued", "one transaction"),
        arrow(204, 54, 290, 54),
        arrow(400, 84, 110, 146),
        *stages,
        *joins,
        box(24, 250, 872, 60, FILL[True], "the ledger: channel_outbox",
            "a row before every call, its outcome after, a unique key always"),
        box(570, 24, 180, 60, FILL[False], "provider", "SMS, push, mail"),
        arrow(460, 194, 460, 246),
        arrow(558, 194, 558, 246),
        arrow(656, 150, 656, 88),
        arrow(754, 194, 754, 246),
        arrow(852, 194, 852, 246),
    ]  # fmt: skip
    lines = [part for part in parts if part.startswith("<line")]
    boxes = [part for part in parts if not part.startswith("<line")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' font-family="system-ui, sans-serif" font-size="14" text-anchor="middle" fill="{INK}">'
        "<title>A campaign becomes jobs, jobs become ledger rows, and only a ledger row becomes a"
        " provider call; green steps are durable.</title>"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7"'
        f' markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="{LINE}"/></marker></defs>'
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{PAPER}"/>'
        f'<g stroke="{LINE}" stroke-width="1.5">{"".join(lines)}</g>{"".join(boxes)}</svg>\n'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
