"""The workers of a system as processes: they load everything, report that they are ready, and wait.

`go` lets them begin. They end when terminated, or when their parent is gone.
"""

import os
import signal
import subprocess
import sys
from typing import Protocol

from systems.child import Request, read_request

READY = "ready"
WORK = "work"
STOP_SECONDS = 20.0


class Crew(Protocol):
    async def start(self) -> None:
        """Return when all are ready; nothing is taken yet."""

    async def go(self) -> None: ...

    async def stop(self) -> None: ...


class ProcessCrew:
    """As many processes as the request asks for, each `python -P -m MODULE work REQUEST`."""

    def __init__(self, module: str, request: Request) -> None:
        self._command = [sys.executable, "-P", "-m", module, WORK, request.as_json()]
        self._count = request.workers
        self._processes: list[subprocess.Popen[str]] = []

    async def start(self) -> None:
        for _ in range(self._count):
            self._processes.append(
                subprocess.Popen(  # noqa: ASYNC220 - nothing else runs here
                    self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
        for process in self._processes:
            assert process.stdout is not None
            said = process.stdout.readline().strip()
            assert said == READY, f"a worker said {said!r} and not that it is ready"

    async def go(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    async def stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def is_worker() -> bool:
    return sys.argv[1] == WORK


def worker_request() -> Request:
    return read_request(sys.argv[2])


def wait_for_go() -> None:
    """A worker's side of `start` and `go`."""
    print(READY, flush=True)
    if not sys.stdin.readline():
        os._exit(0)
