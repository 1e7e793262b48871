"""Goes through the incidents and prints how soon each place first said something useful about them.

`make incidents` takes a few minutes. Other work on the machine counts: the load is printed with it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = "tests/crash/test_incidents.py"
VARIABLE = "INCIDENT_FIGURES"
PLACES = ("page", "page_and_alert", "alert", "log")


def table(lines: list[dict[str, object]]) -> str:
    """One row per incident: the seconds until the first word on each place, and the load."""
    rows = [
        "| incident | page | alert | log | load |",
        "|---|---|---|---|---|",
    ]
    for incident in dict.fromkeys(str(line["incident"]) for line in lines):
        of_it = [line for line in lines if line["incident"] == incident]
        seconds = {str(line["place"]): line["seconds"] for line in of_it}
        both = seconds.get("page_and_alert", "")
        name = incident.removeprefix("test_").partition("[")[0].replace("_", " ")
        load = max(float(str(line["load"])) for line in of_it)
        rows.append(
            f"| {name} | {seconds.get('page', both)} | {seconds.get('alert', both)}"
            f" | {seconds.get('log', '')} | {load} |"
        )
    return "\n".join(rows)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.ndjson"
        file.touch()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS],
            cwd=ROOT, env={**os.environ, VARIABLE: str(file)}, check=False,
        )  # fmt: skip
        print(table([json.loads(line) for line in file.read_text().splitlines()]))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
