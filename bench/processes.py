"""One measurement as a child process: started, read from, and observed from outside.

CPU seconds are those between the child's `begin` and its results, of its whole process tree and,
separately, of the servers that it uses. Memory is the maximum of any process in the tree.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import psutil

from environments import BENCH, ROOT, last_words
from systems.child import BEGIN, Request

KILOBYTE = 1024
MEGABYTE = 1024 * 1024
END_SECONDS = 60.0


class Failed(Exception):
    """A failed measurement; carries the reason as a sentence."""


@dataclass(frozen=True)
class Measured:
    """What a child reported, and what was observed of it."""

    results: dict[str, Any]
    wall_seconds: float
    cpu_seconds: float
    server_cpu_seconds: float
    peak_memory_mb: float


@dataclass(frozen=True)
class Look:
    at: float
    cpu_seconds: float
    server_cpu_seconds: float


def run_child(
    command: Sequence[str], request: Request, server_ids: Sequence[int], most_seconds: float
) -> Measured:
    errors = Path(request.folder, "errors.txt")
    with errors.open("w") as said:
        child = subprocess.Popen(
            [*command, request.as_json()],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True,
            env=_environment(), cwd=request.folder, start_new_session=True,
        )  # fmt: skip
    too_long = Timer(most_seconds, _end, [child])
    too_long.start()
    try:
        measured = _listen(child, server_ids)
        child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        # It has reported everything; that it cannot end is not part of the measurement.
        pass
    finally:
        stopped = not too_long.is_alive()
        too_long.cancel()
        _end(child)
    if measured is None:
        reason = (
            f"not done after {most_seconds:.0f} s" if stopped else last_words(errors.read_text())
        )
        raise Failed(reason)
    return measured


def _listen(child: subprocess.Popen[str], server_ids: Sequence[int]) -> Measured | None:
    assert child.stdin is not None
    assert child.stdout is not None
    began: Look | None = None
    for line in child.stdout:
        if line.strip() == BEGIN:
            began = _look(child.pid, server_ids)
        elif line.startswith("{"):
            ended, memory = _look(child.pid, server_ids), _peak_memory_mb(child.pid)
            child.stdin.close()
            began = began or ended
            return Measured(
                json.loads(line),
                ended.at - began.at,
                ended.cpu_seconds - began.cpu_seconds,
                ended.server_cpu_seconds - began.server_cpu_seconds,
                memory,
            )
        else:
            continue
        child.stdin.write("\n")
        child.stdin.flush()
    return None


def _look(child_id: int, server_ids: Sequence[int]) -> Look:
    servers = sum(cpu_seconds(server_id) for server_id in server_ids)
    return Look(time.monotonic(), cpu_seconds(child_id), servers)


def cpu_seconds(process_id: int) -> float:
    """For the process, its descendants, and those of them that have ended."""
    total = 0.0
    for process in _family(process_id):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def _peak_memory_mb(process_id: int) -> float:
    peaks = [0.0]
    for process in _family(process_id):
        with suppress(OSError):
            status = Path(f"/proc/{process.pid}/status").read_text()
            peaks += [
                int(line.split()[1]) * KILOBYTE / MEGABYTE
                for line in status.splitlines()
                if line.startswith("VmHWM:")
            ]
    return max(peaks)


def _family(process_id: int) -> list[psutil.Process]:
    try:
        eldest = psutil.Process(process_id)
        return [eldest, *eldest.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _environment() -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(BENCH), str(ROOT / "src"))),
        "PYTHONDONTWRITEBYTECODE": "",
    }


def _end(child: subprocess.Popen[str]) -> None:
    """The child leads its own session: any process it left behind is in its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
