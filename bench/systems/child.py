"""The protocol between a system's script and `bench/run.py`, and between handlers and the script.

The request comes on the command line. The script prints `begin` and waits for a line, so that the
parent can read the CPU clocks of all processes; it does the same with its results at the end.
"""

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

STARTS_VARIABLE = "BENCH_STARTS"
BEGIN = "begin"


@dataclass
class Request:
    """What is to be measured. `waiting` and `terminal` are rows that exist before it begins."""

    measure: str
    count: int
    folder: str
    database: str = ""
    server: str = ""
    workers: int = 1
    samples: int = 0
    seconds: float = 0.0
    waiting: int = 0
    terminal: int = 0
    options: dict[str, str] = field(default_factory=dict)

    def as_json(self) -> str:
        return json.dumps(asdict(self))


@dataclass
class Results:
    """`timings` are messages and seconds by what was timed; `latencies_ms` has one per message."""

    version: str = ""
    timings: dict[str, tuple[int, float]] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)

    def as_json(self) -> str:
        return json.dumps(asdict(self))


def read_request(argument: str | None = None) -> Request:
    document: dict[str, Any] = json.loads(argument or sys.argv[1])
    return Request(**document)


def begin() -> None:
    """Everything is prepared: timing starts here."""
    _say(BEGIN)


def report(results: Results) -> None:
    """Returns when the parent has looked; all processes must live until then."""
    _say(results.as_json())


def _say(line: str) -> None:
    print(line, flush=True)
    sys.stdin.readline()


_starts: int | None = None


def tell_start() -> None:
    """The first thing that a handler does; costs next to nothing without a listener."""
    global _starts
    if _starts is None:
        path = os.environ.get(STARTS_VARIABLE)
        _starts = os.open(path, os.O_WRONLY) if path else -1
    if _starts >= 0:
        os.write(_starts, b"%d\n" % time.monotonic_ns())
