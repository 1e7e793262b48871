"""What a witness writes down: JSON lines, each one written before the witness acts on it.

Of one request there are several lines, one for each thing that became known of it; together they
are the request. So a request that nobody saw the end of has no `endedAt`.
"""

import os
import time
from itertools import count
from pathlib import Path
from typing import Any

import msgspec


class WitnessLog:
    """The writing side, in the witness's own process."""

    def __init__(self, path: Path) -> None:
        # One write per line to a file opened for appending: a kill leaves whole lines only.
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._numbers = count(1)

    def begin(self, **known: Any) -> int:
        number = next(self._numbers)
        self.add(number, **known)
        return number

    def add(self, number: int, **known: Any) -> None:
        self._write({"number": number, **known})

    def end(self, number: int, **known: Any) -> None:
        self._write({"number": number, "endedAt": time.time(), **known})

    def script_changed(self, script: Any) -> None:
        self._write({"scriptAt": time.time(), "script": script})

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self._handle, msgspec.json.encode(line) + b"\n")


class Request(msgspec.Struct, frozen=True, rename="camel"):
    """One request, or one mail transaction, as far as it got."""

    number: int
    began_at: float
    outcome: str
    reference_id: str = ""
    to: str = ""
    text: str = ""
    path: str = ""
    ended_at: float | None = None

    @property
    def was_accepted(self) -> bool:
        return self.outcome == ACCEPTED and self.ended_at is not None


ACCEPTED = "accepted"


class WitnessReader:
    """The reading side: each look reads only what was written since the last one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._known: dict[int, dict[str, Any]] = {}
        self._scripts: list[tuple[float, dict[str, Any]]] = []

    def requests(self) -> list[Request]:
        """All requests, in the order in which they began."""
        self._read()
        found = msgspec.convert(list(self._known.values()), list[Request])
        return sorted(found, key=lambda request: (request.began_at, request.number))

    def count(self) -> int:
        self._read()
        return len(self._known)

    def script_changes(self) -> list[tuple[float, dict[str, Any]]]:
        """When the witness was told to behave differently, and how."""
        self._read()
        return self._scripts

    def _read(self) -> None:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            whole = file.read().rpartition(b"\n")[0]
        self._offset += len(whole) + (1 if whole else 0)
        for text in whole.splitlines():
            line = msgspec.json.decode(text)
            if "script" in line:
                self._scripts.append((line["scriptAt"], line["script"]))
            else:
                self._known.setdefault(line["number"], {}).update(line)
