"""A series of worlds: seed after seed, in several processes, until all are run or the time is up.

Its totals can be added to a file of results, so that a large number can be run in pieces.
"""

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path

from outrider.testing.simulation.mutants import MUTANTS
from outrider.testing.simulation.scenario import Outcome, simulate
from outrider.testing.simulation.shrinking import fewest

COUNTED = ("kills", "items", "duplicates", "lost", "stuck")
PIECE_SEEDS = 20
"""For one process at a time."""


def one_world(seed: int, mutant: str | None, kept: Sequence[str] | None) -> Outcome:
    with MUTANTS[mutant].plant() if mutant else nullcontext():
        return simulate(seed, kept)


def smallest(outcome: Outcome, mutant: str | None) -> list[str]:
    """The fewest of its happenings with which the world still fails."""
    return fewest(outcome.happenings, lambda kept: not one_world(outcome.seed, mutant, kept).holds)


@dataclass
class Series:
    first_seed: int
    seeds: int
    processes: int = 1
    seconds: float | None = None
    mutant: str | None = None
    kept: Sequence[str] | None = None

    def outcomes(self) -> Iterator[Outcome]:
        """In the order of their seeds. A planted bug is looked for until it is caught."""
        ends_at = None if self.seconds is None else time.monotonic() + self.seconds
        run = partial(one_world, mutant=self.mutant, kept=self.kept)
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        for outcome in self._in_turn(run, seeds, ends_at):
            yield outcome
            if self.mutant is not None and not outcome.holds:
                return

    def _in_turn(
        self, run: "partial[Outcome]", seeds: range, ends_at: float | None
    ) -> Iterator[Outcome]:
        if self.processes == 1:
            for seed in seeds:
                if _is_over(ends_at):
                    return
                yield run(seed)
            return
        with ProcessPoolExecutor(self.processes) as pool:
            piece = PIECE_SEEDS * self.processes
            for first in range(0, len(seeds), piece):
                if _is_over(ends_at):
                    return
                yield from pool.map(run, seeds[first : first + piece])


def _is_over(ends_at: float | None) -> bool:
    return ends_at is not None and time.monotonic() > ends_at


@dataclass
class Totals:
    first_seed: int
    seeds: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    failures: list[dict[str, object]] = field(default_factory=list)
    _digest: str = ""

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        for name in COUNTED:
            self.counts[name] += getattr(outcome, name)
        if not outcome.holds:
            self.failures.append({"seed": outcome.seed, "findings": outcome.findings})
        self._digest = sha256((self._digest + outcome.digest).encode()).hexdigest()

    def sentence(self) -> str:
        return (
            f"{self.seeds:,} seeds, {self.counts['kills']:,} kills,"
            f" {self.counts['items']:,} items: {len(self.failures)} failed"
        )

    def as_document(self) -> dict[str, object]:
        counted = {"seeds": self.seeds, **self.counts}
        return {**counted, "failures": self.failures, "digest": self._digest}


def add_to_results(path: Path, totals: Totals) -> None:
    """One more piece: from which seed, how many, and what they met."""
    pieces = json.loads(path.read_text()) if path.exists() else []
    failed = [each["seed"] for each in totals.failures]
    pieces.append({
        "firstSeed": totals.first_seed, "seeds": totals.seeds, **totals.counts, "failed": failed,
    })  # fmt: skip
    path.write_text(json.dumps(pieces, indent=1) + "\n")
