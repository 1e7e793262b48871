"""The documents tell the truth: named paths exist, diagrams are current, commands are real."""

import json
import re
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from outrider.cli.app import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md")
_PATH = re.compile(r"`((?:src|tests|docs|bench|examples|requirements|scripts|\.ci)/[\w./-]*)`")
_COMMAND = re.compile(r"outrider ((?:[a-z]+)(?: [a-z]+)?)")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_path_a_document_names_exists(name: str) -> None:
    named = _PATH.findall((ROOT / name).read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_architecture_names_every_room_of_the_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {path.parent.name for path in (ROOT / "src/outrider").glob("*/__init__.py")}
    assert {room for room in rooms if f"`src/outrider/{room}/`" not in text} == set()


def test_the_state_machine_page_is_what_the_tables_generate() -> None:
    script = runpy.run_path(str(ROOT / "scripts/state_machines.py"))
    assert (ROOT / "docs/state-machines.md").read_text() == script["page"]()


def test_the_benchmark_page_is_what_the_results_generate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    script = runpy.run_path(str(ROOT / "bench/page.py"))
    results = json.loads((ROOT / "bench/results.json").read_text())
    assert (ROOT / "docs/benchmarks.md").read_text() == script["page"](results)


def test_the_capacity_page_is_what_its_measurements_generate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    script = runpy.run_path(str(ROOT / "bench/capacity_page.py"))
    found = json.loads((ROOT / "bench/capacity.json").read_text())
    assert (ROOT / "docs/capacity.md").read_text() == script["page"](found)


def test_readme_prints_the_test_command_that_ci_runs() -> None:
    readme, gate = (ROOT / "README.md").read_text(), (ROOT / ".ci/run").read_text()
    assert "make test" in readme
    assert "make test" in gate


def test_every_outrider_command_that_readme_shows_exists() -> None:
    shown = set(_COMMAND.findall((ROOT / "README.md").read_text()))
    assert shown, "README shows no command"
    for command in shown:
        words = command.split()
        known = CliRunner().invoke(app, [words[0], "--help"])
        assert known.exit_code == 0, command
        if len(words) == 2 and words[0] in {"campaign", "run", "doubts", "intent"}:
            assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0, command


def test_the_changelog_has_an_entry_for_this_version() -> None:
    from outrider import __version__

    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
