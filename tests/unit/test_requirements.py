"""What `make` installs: pinned, hashed, and no more than it says."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)


def pins(name: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / "requirements" / name).read_text()))


def project() -> dict[str, list[str]]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {"runtime": document["project"]["dependencies"], **document["dependency-groups"]}


def names(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


def test_the_demo_gets_what_outrider_needs_and_no_test_tool() -> None:
    groups = project()
    assert names(groups["runtime"]) - set(pins("demo.txt")) == set(), "run `make pins`"
    only_for_tests = names(groups["test"]) - names(groups["runtime"])
    assert len(only_for_tests) > 20
    assert only_for_tests & set(pins("demo.txt")) == set()


def test_the_tests_run_with_the_versions_of_the_demo() -> None:
    """Else installing one after the other would exchange what is there already."""
    assert pins("demo.txt").items() <= pins("dev.txt").items()


@pytest.mark.parametrize("name", ["demo.txt", "dev.txt"])
def test_every_pin_has_a_hash_and_no_file_names_an_index(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    entries = PINNED.split(text)[0::3][1:]
    assert len(entries) > 50
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text
    assert "--index" not in text


@pytest.mark.parametrize(
    ("goal", "installs"),
    [
        (["demo"], ["requirements/demo.txt"]),
        (["serve"], ["requirements/demo.txt"]),
        (["demo", "ENGINE=temporal"], ["requirements/demo.txt", "requirements/dev.txt"]),
        (["test"], ["requirements/demo.txt", "requirements/dev.txt"]),
    ],
)
def test_a_goal_installs_what_it_needs(
    goal: list[str], installs: list[str], tmp_path: Path
) -> None:
    """In a fresh clone, where there is no environment yet."""
    plan = subprocess.run(
        ["make", "--dry-run", *goal, f"VENV={tmp_path}/venv"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert re.findall(r"--require-hashes -r (\S+)", plan.stdout) == installs
