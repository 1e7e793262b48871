"""`make test`: every test side by side, then a second look at the few that failed.

Six processes of tests share two processors, and now and then one waits in vain for a machine that
is busy elsewhere. So a few failures are run once more, alone. Both results are printed, and what
fails again fails the run. There is no second look where a failure that comes and goes is the
finding itself: where workers are killed (tests/crash), where many failed, or where none was run.

A test that hangs ends with its process, and another process goes on (`timeout_method` in
pyproject.toml). Should pytest as a whole hang, every process of it prints where it stands, then its
test, and the run fails.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

SECOND_LOOKS_MOST = 5
"""More failures than these are not a busy machine."""
STANDS = ("tests/crash/",)
"""A failure here counts at once: it may be a race that shows itself one time in a hundred."""
TESTS_FAILED = 1
"""pytest's exit code for it; any other is an interruption, an error of its own, or no tests."""
HANGS_AFTER_SECONDS = float(os.environ.get("TEST_SECONDS_MOST", 2700))
"""The whole takes half of it."""
LAST_WORDS_SECONDS = 10.0
HANGS = 124
"""The exit code of timeout(1)."""

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
PYTEST = [sys.executable, "-m", "pytest"]


def main(given: list[str]) -> int:
    LAST_FAILED.unlink(missing_ok=True)
    # Four more than there are processors: tests mostly wait, for disks, clocks and pages.
    processes = (os.cpu_count() or 1) + 4
    code = run(["-n", str(processes), "--dist", "worksteal", *given])
    failed = failures()
    if code != TESTS_FAILED or not deserve_second_look(failed):
        return code
    print(f"\nFAILED beside other tests, now run alone: {', '.join(failed)}", flush=True)
    code = run(failed)
    if code == 0:
        print("FAILED ONCE, PASSED ALONE (each deserves a look):", *failed, sep="\n  ", flush=True)
    return code


def run(given: list[str]) -> int:
    pytest = subprocess.Popen([*PYTEST, *given], env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    try:
        return pytest.wait(HANGS_AFTER_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"\nHANGS: not done after {HANGS_AFTER_SECONDS:.0f} s; here it stands", flush=True)
        main = psutil.Process(pytest.pid)
        family = [*main.children(recursive=True), main]
        titles = [" ".join(each.cmdline()) for each in family]
        # Python prints the stack of every thread when it gets this signal.
        end(family, signal.SIGABRT)
        # Last, because long output is cut from its beginning.
        print("HUNG, with these tests:", *filter(names_a_test, titles), sep="\n  ", flush=True)
        return HANGS


def names_a_test(title: str) -> bool:
    """xdist writes it there, with the help of setproctitle."""
    return title.startswith("[pytest-xdist")


def end(processes: list[psutil.Process], how: signal.Signals) -> None:
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.send_signal(how)
    _, alive = psutil.wait_procs(processes, LAST_WORDS_SECONDS)
    if alive:
        end(alive, signal.SIGKILL)


def failures() -> list[str]:
    return sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def deserve_second_look(failed: list[str]) -> bool:
    return 0 < len(failed) <= SECOND_LOOKS_MOST and not any(
        test.startswith(STANDS) for test in failed
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
