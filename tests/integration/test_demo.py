"""`outrider demo` as README shows it, in processes of its own."""

import json
import subprocess
import sys

import pytest

DEMO_SECONDS = 120


@pytest.mark.parametrize(("flag", "kills"), [("--kill", 1), ("--no-kill", 0)])
def test_the_demo_loses_nothing_and_sends_nothing_twice(flag: str, kills: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outrider", "demo", "--recipients", "600", flag, "--json"],
        capture_output=True,
        text=True,
        timeout=DEMO_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "intended": 600,
        "received": 600,
        "duplicates": 0,
        "lost": 0,
        "inDoubt": 0,
        "kills": kills,
        "certificate": True,
    }
