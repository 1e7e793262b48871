"""Writes the table of search times in docs/howto/people.md from bench/people_results.json."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/howto/people.md"
RESULTS = ROOT / "bench/people_results.json"
BEGIN, END = "<!-- search times: bench/people_page.py -->\n", "<!-- end of search times -->"
NAMES = {"sqlite": "SQLite", "postgresql": "Postgres"}


def table(results: list[dict[str, Any]]) -> str:
    """A column for each database and size: the median, and what 99 of 100 take at most."""
    heads = [
        f"{NAMES[each['database']]}, {each['rows']:,} rows (load {each['load']})"
        for each in results
    ]
    kinds = list(dict.fromkeys(kind for each in results for kind in each["milliseconds"]))
    lines = [
        f"| milliseconds: median, 99 of 100 | {' | '.join(heads)} |",
        f"|---|{'---|' * len(heads)}",
    ]
    for kind in kinds:
        of_each = [each["milliseconds"].get(kind) for each in results]
        cells = [f"{found['median']}, {found['within_99']}" if found else "" for found in of_each]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(json.loads(RESULTS.read_text()))}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page())
