"""`make test`: every test side by side, then a second look at the few that failed.

Six processes of tests share two processors, and now and then one waits in vain for a machine that
is busy elsewhere. So a few failures are run once more, alone. Both results are printed, and what
fails again fails the run. There is no second look where a failure that comes and goes is the
finding itself: where workers are killed (tests/crash), where many failed, or where none was run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

SECOND_LOOKS_MOST = 5
"""More failures than these are not a busy machine."""
STANDS = ("tests/crash/",)
"""A failure here counts at once: it may be a race that shows itself one time in a hundred."""
TESTS_FAILED = 1
"""pytest's exit code for it; any other is an interruption, an error of its own, or no tests."""

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
PYTEST = [sys.executable, "-m", "pytest"]


def main(given: list[str]) -> int:
    LAST_FAILED.unlink(missing_ok=True)
    # Four more than there are processors: tests mostly wait, for disks, clocks and pages.
    processes = (os.cpu_count() or 1) + 4
    code = subprocess.run([*PYTEST, "-n", str(processes), "--dist", "worksteal", *given]).returncode
    failed = failures()
    if code != TESTS_FAILED or not deserve_second_look(failed):
        return code
    print(f"\nFAILED beside other tests, now run alone: {', '.join(failed)}", flush=True)
    code = subprocess.run([*PYTEST, *failed]).returncode
    if code == 0:
        print("FAILED ONCE, PASSED ALONE (each deserves a look):", *failed, sep="\n  ", flush=True)
    return code


def failures() -> list[str]:
    return sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []


def deserve_second_look(failed: list[str]) -> bool:
    return 0 < len(failed) <= SECOND_LOOKS_MOST and not any(
        test.startswith(STANDS) for test in failed
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
