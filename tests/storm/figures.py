"""What the storm's rounds have shown so far, and the table of it in the documentation."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from tests.storm.rounds import Round

RESULTS = Path(__file__).with_name("results.ndjson")
PAGE = Path(__file__).parents[2] / "docs/explanation/storm.md"
BEGIN, END = "<!-- generated: make storm -->\n", "<!-- end -->\n"
GOAL = 10_000
COLUMNS = (
    "what else happens", "kills", "frozen", "what struck", "messages", "doubts", "to people",
    "doubled", "lost",
)  # fmt: skip
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"


@dataclass(frozen=True)
class Recorded(Round):
    """With the day and the commit it was run on."""

    day: str
    commit: str


def record(found: Round, day: str, commit: str) -> None:
    with RESULTS.open("ab") as file:
        file.write(msgspec.json.encode({**asdict(found), "day": day, "commit": commit}) + b"\n")


def recorded() -> list[Recorded]:
    if not RESULTS.exists():
        return []
    return [msgspec.json.decode(line, type=Recorded) for line in RESULTS.read_bytes().splitlines()]


def table(rounds: Sequence[Recorded]) -> str:
    by_weather: dict[str, list[Recorded]] = {}
    for each in rounds:
        by_weather.setdefault(each.weather, []).append(each)
    lines = [_line(weather, of) for weather, of in by_weather.items()]
    kills = sum(each.kills for each in rounds)
    days = sorted({each.day for each in rounds})
    when = f"from {days[0]} to {days[-1]}" if days else "so far"
    end = f"{kills:,} of {GOAL:,} kills in {len(rounds):,} rounds, {when}.\n"
    return HEAD + "".join([*lines, _line("all", rounds)]) + "\n" + end


def _line(name: str, rounds: Iterable[Recorded]) -> str:
    rounds = list(rounds)
    strikes: Counter[str] = Counter()
    for each in rounds:
        strikes.update(each.strikes)
    struck = ", ".join(f"{count:,} × {what}" for what, count in sorted(strikes.items())) or "–"
    cells = [
        name, f"{sum(each.kills for each in rounds):,}", f"{sum(each.frozen for each in rounds):,}",
        struck, f"{sum(each.items for each in rounds):,}",
        f"{sum(each.doubts for each in rounds):,}",
        f"{sum(each.left_to_people for each in rounds):,}",
        f"{sum(each.doubled for each in rounds):,}", f"{sum(each.lost for each in rounds):,}",
    ]  # fmt: skip
    return "| " + " | ".join(cells) + " |\n"


def page_with(written: str, rounds: Sequence[Recorded]) -> str:
    before, _, rest = written.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{table(rounds)}{END}{after}"
