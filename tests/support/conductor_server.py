"""A Conductor server of the tests' own, from the jar that `scripts/conductor_server.sh` fetches.

It takes half a minute to start, so all processes of a test run share one. A guard beside it ends
it when the test run's first process has ended, however that came about.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from outrider.cli.demo_conductor import find_jar, find_java, server_command
from outrider.settings import Settings
from tests.support.broken_server import closed_port

GIVEN = "OUTRIDER_TEST_CONDUCTOR_URL"
"""A server that is there already: nobody kills it."""
START_SECONDS = 240.0
STOP_SECONDS = 20.0
LOOK_SECONDS = 0.2
ANSWER_SECONDS = 5.0
NOT_THERE = (
    "no Conductor server: `scripts/conductor_server.sh` could not fetch it from Maven Central,"
    " or there is no Java 21"
)


def require_conductor() -> None:
    if find_jar() is None or find_java() is None:
        pytest.skip(NOT_THERE)


class ConductorServer:
    def __init__(self, folder: Path, port: int | None = None) -> None:
        self._folder = folder
        self._port = port or closed_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """On the state that the last one left; `until_ready` waits for it."""
        with (self._folder / "conductor.log").open("ab") as log:
            self._process = subprocess.Popen(
                server_command(self._port), cwd=self._folder, stdout=log, stderr=log
            )

    async def until_ready(self) -> None:
        await asyncio.to_thread(self.wait)

    def wait(self) -> None:
        until = time.monotonic() + START_SECONDS
        while not answers(self.url):
            assert self._process is None or self._process.poll() is None, self._said()
            assert time.monotonic() < until, self._said()
            time.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """No goodbye: what a crash leaves."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=STOP_SECONDS)
        self._process = None

    def forget(self) -> None:
        """While it is not running: what the loss of its disk leaves."""
        assert self._process is None
        for file in self._folder.glob("*.db*"):
            file.unlink()

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def _said(self) -> str:
        return (self._folder / "conductor.log").read_text(errors="replace")[-4_000:]


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=ANSWER_SECONDS) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def on_conductor(url: str, database: str, **others: Any) -> Settings:
    """With a domain that nobody else has."""
    return Settings(
        database_url=database,
        engine="conductor",
        conductor_url=url,
        conductor_domain=f"test-{uuid4()}",
        **others,
    )


@contextmanager
def running_conductor() -> Iterator[ConductorServer]:
    """For tests that kill it; whoever uses it first waits until it is ready."""
    require_conductor()
    with tempfile.TemporaryDirectory(prefix="outrider-conductor-") as folder:
        server = ConductorServer(Path(folder))
        try:
            server.start()
            yield server
        finally:
            server.close()


def shared_conductor(run: str) -> str:
    """The URL of the one that all processes of this test run share."""
    given = os.environ.get(GIVEN)
    if given:
        return given
    require_conductor()
    folder = Path(tempfile.gettempdir()) / f"outrider-conductor-{run}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        written = folder / "port"
        if not written.exists():
            port = closed_port()
            _start_guard(folder, port)
            written.write_text(str(port))
        server = ConductorServer(folder, int(written.read_text()))
        in_vain = folder / "not-started"
        assert not in_vain.exists(), "another process waited for it in vain"
        try:
            server.wait()
        except AssertionError:
            in_vain.touch()
            raise
    return server.url


def _start_guard(folder: Path, port: int) -> None:
    first = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    with (folder / "conductor.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, __file__, str(first), str(port), str(folder)],
            cwd=Path(__file__).parents[2], stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip


def guard(first: int, port: int, folder: Path) -> None:
    """Have the server for as long as the first process of the test run is there."""
    server = ConductorServer(folder, port)
    server.start()
    while Path(f"/proc/{first}").exists():
        time.sleep(LOOK_SECONDS)
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    guard(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
