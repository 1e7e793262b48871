"""How soon after the start of an incident each place first reports it usefully.

Ten seconds are promised on a machine that is not overloaded. Tests run beside others on few cores,
so that what fails them is generous, and what was measured is in the report
(`make incidents`, `pytest -rP`, or the properties of `--junit-xml`).
"""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

FIGURES_VARIABLE = "INCIDENT_FIGURES"
"""A file that gets a line for each first word, for `make incidents`."""
PROMISED_SECONDS = 10.0
PATIENCE = 4.5
"""How many times longer it may take on a machine that does other things too."""


class FirstWord:
    """Created when the incident starts."""

    def __init__(self, record: Callable[[str, object], None]) -> None:
        self._began = time.monotonic()
        self._record = record
        self.seconds: dict[str, float] = {}

    def on(self, place: str) -> None:
        """It is said there now."""
        seconds = time.monotonic() - self._began
        if place in self.seconds:
            return
        self.seconds[place] = seconds
        self._record(f"first_word_on_{place}_seconds", round(seconds, 1))
        if file := os.environ.get(FIGURES_VARIABLE):
            # The name is the test's own; several tests may add to one file.
            test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition("::")[2].partition(" ")[0]
            load = round(os.getloadavg()[0], 1)
            line = {"incident": test, "place": place, "seconds": round(seconds, 1), "load": load}
            with Path(file).open("a") as figures:
                figures.write(json.dumps(line) + "\n")
        print(f"first word on {place}: {seconds:.1f} s")
        assert seconds < PROMISED_SECONDS * PATIENCE, f"{place} said nothing for {seconds:.1f} s"
