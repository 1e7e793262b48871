"""The simulation: its worlds hold, replay exactly, and notice every planted bug.

`make simulate SEEDS=2000` runs more of them; docs/explanation/simulation.md has what was found.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.testing.simulation.mutants import MUTANTS
from outrider.testing.simulation.scenario import plan_of
from outrider.testing.simulation.shrinking import fewest

SEEDS = 30
CAUGHT = json.loads(
    Path(__file__).parents[2].joinpath("docs/explanation/simulation-mutants.json").read_text()
)
"""By the name of a planted bug: the first seed that noticed it. Others were not noticed yet."""
QUICK = {"an acceptance is not recorded", "a provider forgets its references"}


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


def test_several_processes_find_what_one_finds(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    once, again = (
        run("--seeds", "6", "--processes", processes, "--json", "--results", str(results))
        for processes in ("1", "2")
    )
    assert json.loads(once.stdout.splitlines()[-1]) == json.loads(again.stdout.splitlines()[-1])
    first, second = json.loads(results.read_text())
    assert first == second
    assert first["seeds"] == 6


def test_leaving_something_out_changes_nothing_about_the_rest() -> None:
    plan = plan_of(7)
    left = plan.only(plan.names()[1:])
    assert left.names() == plan.names()[1:]
    assert [each.draws().random() for each in left.happenings] == [
        each.draws().random() for each in plan.happenings[1:]
    ]


def test_a_failure_is_cut_down_to_what_it_needs() -> None:
    names = [f"kill-{number}" for number in range(40)]
    needed = {"kill-3", "kill-17", "kill-38"}
    assert set(fewest(names, lambda kept: needed <= set(kept))) == needed


def test_a_printed_command_shows_the_failure_again() -> None:
    name = "a provider forgets its references"
    done = run("--seeds", "100", "--mutant", name)
    [replayed] = [line for line in done.stdout.splitlines() if line.startswith("replay it: ")]
    python, _m, _module, *arguments = shlex.split(replayed.removeprefix("replay it: "))
    assert python == "python"
    assert run(*arguments).returncode == 1
    without_bug = [each for each in arguments if each not in ("--mutant", name)]
    assert run(*without_bug).returncode == 0


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=() if each in QUICK else pytest.mark.storm) for each in CAUGHT],
)
def test_a_planted_bug_is_noticed(name: str) -> None:
    """By the seed that is on record; `--mutant NAME --seeds 2000` looks for others."""
    done = run("--seeds", "1", "--first-seed", str(CAUGHT[name]), "--mutant", name, "--no-shrink")
    assert done.returncode == 1, done.stdout + done.stderr


def test_planted_bugs_on_record_exist() -> None:
    assert set(CAUGHT) <= set(MUTANTS)
