"""`python -m outrider.testing.simulation`: many worlds, each decided by a seed."""

import argparse
import json
import os
import shlex
import sys
from pathlib import Path

from outrider.testing.simulation.mutants import MUTANTS
from outrider.testing.simulation.scenario import Outcome
from outrider.testing.simulation.series import Series, Totals, add_to_results, smallest

MODULE = "outrider.testing.simulation"
SHOWN_FINDINGS = 3


def main() -> int:
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Otherwise sets of strings are iterated in another order each time.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *sys.argv[1:]])
    given = _parser().parse_args()
    if given.list_mutants:
        print(*MUTANTS, sep="\n")
        return 0
    series = Series(given.first_seed, given.seeds, given.processes, given.seconds, given.mutant,
                    given.keep)  # fmt: skip
    totals = Totals(given.first_seed)
    for outcome in series.outcomes():
        totals.add(outcome)
        if not outcome.holds:
            _tell(outcome, series, shrink=not given.no_shrink and given.keep is None)
        if sys.stderr.isatty():
            print(f"\r{totals.seeds:,} of {given.seeds:,}", end="", file=sys.stderr, flush=True)
    print(totals.sentence())
    if given.results:
        add_to_results(given.results, totals)
    if given.json:
        print(json.dumps(totals.as_document()))
    return 1 if totals.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {MODULE}",
        description="Run the real kernel in simulated worlds, and say where something was doubled,"
        " lost or stuck. A seed replays exactly.",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds (100)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first world's seed (0)")
    parser.add_argument("--processes", type=int, default=1, help="how many at the same time (1)")
    parser.add_argument("--seconds", type=float, help="begin no further world after this time")
    parser.add_argument("--mutant", choices=list(MUTANTS), help="with this bug planted")
    parser.add_argument(
        "--keep", nargs="*", metavar="HAPPENING", help="of what happens in a world, only these"
    )
    parser.add_argument("--no-shrink", action="store_true", help="show a failing world as it is")
    parser.add_argument("--results", type=Path, help="add what was found to this file")
    parser.add_argument("--list-mutants", action="store_true", help="name the bugs, and end")
    parser.add_argument("--json", action="store_true", help="the last line is JSON")
    return parser


def _tell(outcome: Outcome, series: Series, *, shrink: bool) -> None:
    print(f"seed {outcome.seed} failed:", *outcome.findings[:SHOWN_FINDINGS], sep="\n  ")
    kept = smallest(outcome, series.mutant) if shrink else series.kept
    command = ["python", "-m", MODULE, "--seeds", "1", "--first-seed", str(outcome.seed)]
    if series.mutant:
        command += ["--mutant", series.mutant]
    if kept is not None:
        command += ["--keep", *kept]
    print("replay it:", shlex.join(command), flush=True)


if __name__ == "__main__":
    sys.exit(main())
