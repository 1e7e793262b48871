"""`scripts/test.py`: a failure beside other tests is looked at once more, and never forgotten."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test.py"
FAILS_ONCE = """
from pathlib import Path
def test_it():
    met = Path("met.txt")
    before = met.exists()
    met.write_text("")
    assert before
"""
FAILS_ALWAYS = "def test_it():\n    assert False\n"
MANY_FAIL = """
import pytest
@pytest.mark.parametrize("number", range(6))
def test_it(number):
    assert False
"""
PASSES = "def test_it():\n    assert True\n"


@pytest.mark.parametrize(
    ("file", "test", "code", "says"),
    [
        ("tests/unit/test_a.py", PASSES, 0, "1 passed"),
        ("tests/unit/test_a.py", FAILS_ONCE, 0, "FAILED ONCE, PASSED ALONE"),
        ("tests/unit/test_a.py", FAILS_ALWAYS, 1, "now run alone"),
        ("tests/crash/test_a.py", FAILS_ONCE, 1, "1 failed"),
        ("tests/unit/test_a.py", MANY_FAIL, 1, "6 failed"),
        ("tests/unit/test_a.py", "", 5, "no tests ran"),
    ],
)
def test_only_few_failures_outside_the_crash_tests_get_a_second_look(
    tmp_path: Path, file: str, test: str, code: int, says: str
) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(test)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:schemathesis\n")
    done = subprocess.run(
        [sys.executable, SCRIPT, "-n", "0", file], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout


HANGS = """
import threading
def test_it():
    threading.Event().wait()
"""


def test_a_run_that_hangs_says_where_it_stands_and_fails(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p no:schemathesis\n")
    done = subprocess.run(
        [sys.executable, SCRIPT, "-n", "1", "test_a.py"], cwd=tmp_path,
        capture_output=True, text=True, env={**os.environ, "TEST_SECONDS_MOST": "15"},
    )  # fmt: skip
    assert done.returncode == 124, done.stdout + done.stderr
    assert "HANGS: not done after 15 s" in done.stdout
    assert "threading.py" in done.stderr
    assert done.stdout.rstrip().endswith("test_a.py::test_it")


def test_a_test_that_hangs_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(HANGS + PASSES.replace("it", "other"))
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = -p no:schemathesis\ntimeout = 2\ntimeout_method = thread\n"
    )
    done = subprocess.run(
        [sys.executable, SCRIPT, "-n", "1", "test_a.py"], cwd=tmp_path,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed while running 'test_a.py::test_it'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout
