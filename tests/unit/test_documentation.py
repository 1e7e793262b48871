"""The documents tell the truth: named paths exist, diagrams are current, commands are real."""

import json
import re
import runpy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.main import get_command

from outrider.cli.app import app
from outrider.settings import Settings

ROOT = Path(__file__).parents[2]
DOCUMENTS = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
_PATH = re.compile(
    r"`((?:src|tests|docs|bench|examples|requirements|scripts|deploy|\.ci)/[\w./-]*)`"
)
_LINK = re.compile(r"\]\(((?!\w+:)[^)\s]*)\)")
_CODE = re.compile(r"```.*?\n(.*?)```|`([^`\n]+)`", re.DOTALL)
_COMMAND = re.compile(r"(?:\$ )?(?:[A-Z_]+=\S+ )*outrider(?= )([^#]*)")


def missing_paths(text: str) -> list[str]:
    return [path for path in _PATH.findall(text) if not (ROOT / path).exists()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_a_document_names_exists(document: Path) -> None:
    assert missing_paths(document.read_text()) == []


def test_a_path_that_does_not_exist_is_found() -> None:
    assert sum(len(_PATH.findall(document.read_text())) for document in DOCUMENTS) > 100
    assert missing_paths("see `src/outrider/nowhere.py` and `docs/reference/api.md`") == [
        "src/outrider/nowhere.py"
    ]


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", each).strip().lower().replace(" ", "-") for each in headings}


def broken_links(text: str, folder: Path) -> list[str]:
    """Links to a file or heading that does not exist."""
    broken = []
    for link in _LINK.findall(text):
        name, _, anchor = link.partition("#")
        page = folder / name
        if page.exists() and not anchor:
            continue
        if not page.exists() or anchor not in anchors(page.read_text() if name else text):
            broken.append(link)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    assert broken_links(document.read_text(), document.parent) == []


def test_a_broken_link_is_found() -> None:
    text = (
        "# One page\n[a](#one-page) [b](#another) [c](api.md#keys) [d](api.md#nothing) [e](no.md)"
    )
    assert broken_links(text, ROOT / "docs/reference") == ["#another", "api.md#nothing", "no.md"]


def test_architecture_names_every_room_of_the_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {path.parent.name for path in (ROOT / "src/outrider").glob("*/__init__.py")}
    assert {room for room in rooms if f"`src/outrider/{room}/`" not in text} == set()


def test_the_state_machine_page_is_what_the_tables_generate() -> None:
    script = runpy.run_path(str(ROOT / "scripts/state_machines.py"))
    assert (ROOT / "docs/reference/state-machines.md").read_text() == script["page"]()


def test_the_times_of_searches_are_what_the_benchmark_measured() -> None:
    script = runpy.run_path(str(ROOT / "bench/people_page.py"))
    assert (ROOT / "docs/howto/people.md").read_text() == script["page"]()


def test_the_runbook_of_the_console_is_what_the_document_generates() -> None:
    script = runpy.run_path(str(ROOT / "scripts/runbook_page.py"))
    assert (ROOT / "src/outrider/console/runbook.html").read_text() == script["page"]()


def test_the_settings_page_is_what_the_code_generates() -> None:
    """And so every setting has its sentence there."""
    script = runpy.run_path(str(ROOT / "scripts/settings_page.py"))
    page = (ROOT / "docs/reference/settings.md").read_text()
    assert page == script["page"](), "run `make docs`"
    assert {name for name in Settings.model_fields if f"\n| `{name}` | " not in page} == set()


def test_a_setting_without_a_sentence_is_noticed() -> None:
    class Undescribed(BaseModel):
        mystery: int = 1

    script = runpy.run_path(str(ROOT / "scripts/settings_page.py"))
    with pytest.raises(KeyError, match="mystery"):
        script["table"](Undescribed)


def test_the_benchmark_page_is_what_the_results_generate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    script = runpy.run_path(str(ROOT / "bench/page.py"))
    results = json.loads((ROOT / "bench/results.json").read_text())
    assert (ROOT / "docs/explanation/benchmarks.md").read_text() == script["page"](results)


def test_the_capacity_page_is_what_its_measurements_generate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    script = runpy.run_path(str(ROOT / "bench/capacity_page.py"))
    found = json.loads((ROOT / "bench/capacity.json").read_text())
    assert (ROOT / "docs/explanation/capacity.md").read_text() == script["page"](found)


def test_readme_prints_the_test_command_that_ci_runs() -> None:
    readme, gate = (ROOT / "README.md").read_text(), (ROOT / ".ci/run").read_text()
    assert "make test" in readme
    assert "make test" in gate


def commands_in(text: str) -> Iterator[list[str]]:
    """What stands behind `outrider` in code, word by word, each line of it."""
    for block, inline in _CODE.findall(text):
        for line in (block or inline).replace("\\\n", " ").splitlines():
            for part in re.split(r" [|&;]+ ", line):
                if found := _COMMAND.match(part.strip()):
                    yield found[1].split()


def problems_with(words: Sequence[str]) -> list[str]:
    """Names of commands and options in it that the command line does not know."""
    found: Any = get_command(app)
    context = found.make_context("outrider", ["demo"], resilient_parsing=True)
    options, problems = set(_options(found)), []
    for word in words:
        name = word.strip("[],")
        if name.startswith("--"):
            if name.partition("=")[0] not in options | set(_options(found)):
                problems.append(name)
        elif hasattr(found, "get_command") and re.fullmatch(r"[a-z][a-z/-]*", name):
            each = [found.get_command(context, part) for part in name.split("/")]
            if None in each:
                problems.append(name)
                break
            found = each[0]
    return problems


def _options(command: Any) -> list[str]:
    return [
        "--help",
        *(name for each in command.params for name in (*each.opts, *each.secondary_opts)),
    ]


# The changelog tells of commands that were.
@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if path.name != "CHANGELOG.md"],
    ids=lambda path: path.name,
)
def test_every_outrider_command_that_a_document_shows_exists(document: Path) -> None:
    shown = list(commands_in(document.read_text()))
    assert [(words, found) for words in shown if (found := problems_with(words))] == []


def test_commands_that_do_not_exist_are_found() -> None:
    readme = list(commands_in((ROOT / "README.md").read_text()))
    assert ["campaign", "status", "ID"] in readme
    assert len(readme) > 15
    planted = "`outrider demonstrate`, `outrider campaign pause/explode ID`"
    planted += "\n```\n$ outrider serve --nope\n```"
    assert [problems_with(words) for words in commands_in(planted)] == [
        ["demonstrate"],
        ["pause/explode"],
        ["--nope"],
    ]


def test_the_changelog_has_an_entry_for_this_version() -> None:
    """And for none above it, but for what is unreleased."""
    from outrider import __version__

    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(each for each in headings if each != "Unreleased") == __version__
