"""The storm's results, a line for each, and the table of docs/howto/settle-doubts.md."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from tests.crash.doubt_storm.cases import CASES

RESULTS: Final = Path(__file__).with_name("figures.ndjson")
PAGE: Final = Path(__file__).parents[3] / "docs" / "howto" / "settle-doubts.md"
BEGIN, END = "<!-- storm -->\n", "<!-- end of storm -->\n"
HEADER: Final = (
    "| case | kills | messages | doubts | settled by | left to people | seconds until settled"
    " | doubled | lost |\n|---|---|---|---|---|---|---|---|---|\n"
)
WORDS: Final = {"look_up": "look-up", "look_up_by_content": "content"}

Line = dict[str, Any]


def read_results(file: Path) -> list[Line]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [msgspec.json.decode(line) for line in lines]


def add_result(file: Path, line: Line) -> None:
    with file.open("ab") as results:
        results.write(msgspec.json.encode(line) + b"\n")


def kills_of(lines: Sequence[Line], case: str, store: str | None = None) -> int:
    """Of storms that ended."""
    return sum(
        each["kills"] for each in lines
        if each["case"] == case and store in (None, each["store"]) and "failed" not in each
    )  # fmt: skip


def table(lines: Sequence[Line]) -> str:
    """A row for each case, over both stores: sums, and the longest time."""
    groups = defaultdict[str, list[Line]](list)
    for line in lines:
        groups[line["case"]].append(line)
    rows = [_row(case.name, groups[case.name]) for case in CASES if groups[case.name]]
    return HEADER + "".join(rows)


def _row(name: str, lines: Sequence[Line]) -> str:
    ended = [each for each in lines if "failed" not in each]
    failed = len(lines) - len(ended)
    kinds: Counter[str] = Counter()
    for line in ended:
        for verdict, count in line["settled_by"].items():
            kind = verdict.partition(":")[0]
            kinds[WORDS.get(kind, kind)] += count
    sums = {
        column: sum(each[column] for each in ended)
        for column in (
            "kills",
            "idle_kills",
            "items",
            "doubts",
            "left_to_people",
            "doubled",
            "lost",
        )
    }
    longest = max((each["seconds_to_settle"] for each in ended), default=0.0)
    settled = ", ".join(f"{kind} {count:,}" for kind, count in sorted(kinds.items()))
    cells = (
        name + (f" ({failed} failed)" if failed else ""), _kills(sums["kills"], sums["idle_kills"]),
        f"{sums['items']:,}", f"{sums['doubts']:,}", settled, f"{sums['left_to_people']:,}",
        f"{longest:.1f}", sums["doubled"], sums["lost"],
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |\n"


def _kills(all_of_them: int, idle: int) -> str:
    return f"{all_of_them:,} ({idle:,} idle)" if idle else f"{all_of_them:,}"


def on_the_page(page: str) -> str:
    return page.partition(BEGIN)[2].partition(END)[0]


def with_table(page: str, rows: str) -> str:
    before, begin, rest = page.partition(BEGIN)
    return before + begin + rows + END + rest.partition(END)[2]
