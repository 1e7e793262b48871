"""Worker processes beside the server: restarted when they die, stopped when it stops."""

import asyncio
import os
import signal
import sys
from contextlib import suppress

import structlog

from outrider.settings import Settings

log = structlog.get_logger()


class WorkerChildren:
    def __init__(self, settings: Settings, count: int, restart_seconds: float) -> None:
        # By environment, because anyone on the host can read a command line and its password.
        self._environment = {**os.environ, **settings.as_environment()}
        self._count = count
        self._restart_seconds = restart_seconds
        self._running: set[asyncio.subprocess.Process] = set()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Keep them running until told to stop, then wait for them to finish what they hold."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._count):
                group.create_task(self._keep_one())

    def stop(self) -> None:
        self._stopping.set()
        self.send(signal.SIGTERM)

    def send(self, number: int) -> None:
        for child in self._running:
            with suppress(ProcessLookupError):
                child.send_signal(number)

    async def _keep_one(self) -> None:
        while not self._stopping.is_set():
            child = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "outrider", "work",
                env=self._environment, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
            )  # fmt: skip
            self._running.add(child)
            if self._stopping.is_set():
                self.send(signal.SIGTERM)
            code = await child.wait()
            self._running.discard(child)
            if self._stopping.is_set():
                return
            log.error("worker_process_ended", pid=child.pid, code=code)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._restart_seconds):
                    await self._stopping.wait()
