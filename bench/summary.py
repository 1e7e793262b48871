"""The summary of a results file: medians, ranges and ratios. Nothing here is measured."""

import statistics
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from catalogue import BY_NAME, OUTRIDER, SYSTEMS, System, limit_of

Run = dict[str, Any]
"""One figure of one round: system, measure, figure, count, value and process observations."""


@dataclass(frozen=True)
class Range:
    median: float
    lowest: float
    highest: float


class Summary:
    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self._runs: list[Run] = document["runs"]

    def systems(self) -> list[System]:
        """The requested ones, in the catalogue's order."""
        return [system for system in SYSTEMS if system.name in self.document["systems"]]

    def failure(self, name: str) -> str | None:
        reasons: dict[str, str] = self.document["failures"].get(name, {})
        return "; ".join(f"{measure}: {reason}" for measure, reason in reasons.items()) or None

    def version(self, name: str) -> str:
        return str(self.document["versions"].get(name, ""))

    def range(self, name: str, figure: str, count: int | None = None) -> Range | None:
        values = [run["value"] for run in self._matching(name, figure, count)]
        return _range(values)

    def seen(self, name: str, figure: str, what: str) -> Range | None:
        """Observed while that figure was measured: CPU seconds, memory."""
        return _range([run[what] for run in self._matching(name, figure, None)])

    def counts(self, figure: str) -> list[int]:
        """The numbers of rows, for figures that are measured with several."""
        return sorted({run["rows"] for run in self._runs if run["figure"] == figure})

    def messages(self, name: str, figure: str) -> int:
        return next((run["count"] for run in self._matching(name, figure, None)), 0)

    def to_outrider(self, name: str, figure: str) -> float | None:
        """The ratio to Outrider's figure, on the same kind of store if there is one."""
        system = BY_NAME[name]
        own = OUTRIDER if system.servers else "outrider-sqlite"
        return self._ratio(name, own, figure)

    def to_limit(self, name: str, figure: str) -> float | None:
        return self._ratio(name, limit_of(BY_NAME[name]), figure)

    def _ratio(self, name: str, other: str, figure: str) -> float | None:
        mine, theirs = self.range(name, figure), self.range(other, figure)
        return mine.median / theirs.median if mine and theirs and theirs.median else None

    def _matching(self, name: str, figure: str, rows: int | None) -> Iterable[Run]:
        return [
            run
            for run in self._runs
            if run["system"] == name
            and run["figure"] == figure
            and (rows is None or run["rows"] == rows)
        ]


def _range(values: list[float]) -> Range | None:
    return Range(statistics.median(values), min(values), max(values)) if values else None


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
