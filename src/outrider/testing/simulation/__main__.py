"""`python -m outrider.testing.simulation`: many worlds, each decided by a seed."""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from hashlib import sha256

from outrider.testing.simulation.mutants import MUTANTS
from outrider.testing.simulation.scenario import Outcome, Trouble, fewest_troubles, simulate

MODULE = "outrider.testing.simulation"
COUNTED = ("kills", "items", "duplicates", "lost", "stuck")
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
    began, outcomes = time.process_time(), []
    for seed in range(given.first_seed, given.first_seed + given.seeds):
        with MUTANTS[given.mutant]() if given.mutant else nullcontext():
            outcome = simulate(seed, given.without)
            outcomes.append(outcome)
            if not outcome.holds:
                _tell(outcome, given.without or fewest_troubles(seed), given.mutant)
        if given.mutant and not outcome.holds:
            # It is caught, which is all there is to find out.
            break
        if sys.stderr.isatty():
            print(f"\r{len(outcomes):,} of {given.seeds:,}", end="", file=sys.stderr, flush=True)
    failures = [each for each in outcomes if not each.holds]
    totals = {name: sum(getattr(each, name) for each in outcomes) for name in COUNTED}
    rate = len(outcomes) / (time.process_time() - began)
    print(
        f"{len(outcomes):,} seeds, {totals['kills']:,} kills, {totals['items']:,} items:"
        f" {len(failures)} failed; {rate:.1f} seeds a CPU second"
    )
    if given.json:
        told = [{"seed": each.seed, "findings": each.findings} for each in failures]
        digest = sha256("".join(each.digest for each in outcomes).encode()).hexdigest()
        print(json.dumps({"seeds": len(outcomes), **totals, "failures": told, "digest": digest}))
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m {MODULE}",
        description="Run the real kernel in simulated worlds, and say where something was doubled,"
        " lost or stuck. A seed replays exactly.",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds (100)")
    parser.add_argument("--first-seed", type=int, default=0, help="the first world's seed (0)")
    parser.add_argument("--mutant", choices=list(MUTANTS), help="with this bug planted")
    parser.add_argument(
        "--without", nargs="+", type=Trouble, choices=list(Trouble), default=[],
        metavar="TROUBLE",
        help=f"leave these out of every world, of {', '.join(Trouble)}",
    )  # fmt: skip
    parser.add_argument("--list-mutants", action="store_true", help="name the bugs, and end")
    parser.add_argument("--json", action="store_true", help="the last line is JSON")
    return parser


def _tell(outcome: Outcome, without: Sequence[Trouble], mutant: str | None) -> None:
    print(f"seed {outcome.seed} failed:", *outcome.findings[:SHOWN_FINDINGS], sep="\n  ")
    command = ["python", "-m", MODULE, "--seeds", "1", "--first-seed", str(outcome.seed)]
    if without:
        command += ["--without", *without]
    if mutant:
        command += ["--mutant", mutant]
    print("replay it:", shlex.join(command), flush=True)


if __name__ == "__main__":
    sys.exit(main())
