"""The simulation: its worlds hold, replay exactly, and notice every planted bug.

`make simulate SEEDS=2000` runs more of them; docs/explanation/simulation.md has what was found.
"""

import json
import shlex
import subprocess
import sys

import pytest

from outrider.testing.simulation.mutants import MUTANTS

SEEDS = 30
QUICK = {"an acceptance is not recorded", "a provider forgets its references"}
MUTANT_SEEDS = 2_000


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "outrider.testing.simulation", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("first", range(0, 60, SEEDS))
def test_nothing_is_doubled_lost_or_stuck(first: int) -> None:
    done = run("--seeds", str(SEEDS), "--first-seed", str(first), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["seeds"] == SEEDS
    assert told["kills"] > 0
    assert told["items"] > SEEDS
    assert (told["duplicates"], told["lost"], told["stuck"], told["failures"]) == (0, 0, 0, [])


def test_a_seed_replays_exactly() -> None:
    """In another process too: nothing but the seed decides."""
    once, again, other = (
        json.loads(run("--seeds", "3", "--first-seed", first, "--json").stdout.splitlines()[-1])
        for first in ("40", "40", "41")
    )
    assert once == again
    assert once["digest"] != other["digest"]


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.storm) for each in MUTANTS],
)
def test_a_planted_bug_is_noticed(name: str) -> None:
    """Within 2,000 seeds; and the command that is printed shows it again, with less going on."""
    done = run("--seeds", str(MUTANT_SEEDS), "--mutant", name)
    assert done.returncode == 1, done.stdout + done.stderr
    [replayed] = [line for line in done.stdout.splitlines() if line.startswith("replay it: ")]
    python, _m, _module, *arguments = shlex.split(replayed.removeprefix("replay it: "))
    assert python == "python"
    assert run(*arguments).returncode == 1
    without_bug = arguments[: arguments.index("--mutant")]
    assert run(*without_bug).returncode == 0
