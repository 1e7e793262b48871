"""Worker processes as a test sees them: started, struck, frozen, thawed, and asked to stop.

Every wait is bounded, and whoever waits in vain is shown the end of the process's log. They are
forked from a server that has nothing but the imports behind it, which saves most of their start.
"""

import asyncio
import os
import signal
from pathlib import Path

from outrider.settings import Settings
from outrider.testing import chaos_worker
from outrider.testing.chaos_worker import READY
from tests.support.forked import forkserver

PATIENCE_SECONDS = 60.0
LEASE_SECONDS = 30.0
"""Long, so that no living worker loses its lease on a busy machine; leases of processes known to be
dead are not waited for."""
SHORT_LEASE_SECONDS = 2.0
"""For workers whose lease has to expire: frozen ones and, with an external engine, killed ones."""
POLL_SECONDS = 0.005
LOG_SHOWN_CHARACTERS = 4_000


class WorkerProcess:
    def __init__(
        self,
        settings: Settings,
        folder: Path,
        name: str,
        *,
        kill_at: str | None = None,
        stall_at: str | None = None,
        lease_seconds: float | None = None,
        jobs_in_parallel: int = 1,
        close_group_seconds: float | None = None,
        stop_when_idle: bool = False,
    ) -> None:
        self._log = folder / f"{name}.log"
        self._stalled = folder / f"{name}.stalled"
        options = ["--database", settings.database_url, "--registry", str(settings.registry)]
        options += ["--engine", settings.engine, "--temporal-address", settings.temporal_address]
        options += ["--conductor-url", settings.conductor_url]
        options += ["--task-queue", settings.temporal_task_queue]
        for name, target in settings.targets.items():
            given = target.model_dump_json(exclude_defaults=True)
            options += ["--target", f"{name}={given}"]
        if lease_seconds is None:
            is_waited_for = stall_at is not None or settings.engine != "local"
            lease_seconds = SHORT_LEASE_SECONDS if is_waited_for else LEASE_SECONDS
        options += ["--lease-seconds", str(lease_seconds)]
        options += ["--jobs-in-parallel", str(jobs_in_parallel)]
        if kill_at:
            options += ["--kill-at", kill_at]
        if stall_at:
            options += ["--stall-at", stall_at, "--stall-file", str(self._stalled)]
        if close_group_seconds is not None:
            options += ["--close-group-seconds", str(close_group_seconds)]
        if stop_when_idle:
            options.append("--stop-when-idle")
        self._process = forkserver.Process(
            target=_act, args=(options, self._log, folder), name=name, daemon=True
        )
        self._process.start()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        assert self._process.pid
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        """As the machine's power cut would, in the middle of whatever it is doing."""
        self._process.kill()
        self._process.join(PATIENCE_SECONDS)

    async def died_of_its_boundary(self) -> None:
        """Wait until the process has killed itself as instructed."""
        assert await self._ended() == -signal.SIGKILL, self._tail("was not killed")

    async def ended_well(self) -> None:
        assert await self._ended() == 0, self._tail("did not end well")

    async def stop(self) -> None:
        """Ask it to stop, and see that it leaves in good order."""
        await self.has_logged(READY)
        self._process.terminate()
        await self.ended_well()

    async def has_logged(self, event: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while event not in self.log:
                assert self.is_running, self._tail(f"ended before it logged {event}")
                await asyncio.sleep(POLL_SECONDS)

    async def is_stalled(self) -> None:
        """Wait until the process is stopped at its boundary."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (self._stalled.exists() and self._state() == "T"):
                assert self.is_running, self._tail("ended before its stall")
                await asyncio.sleep(POLL_SECONDS)

    def thaw(self) -> None:
        assert self._process.pid
        os.kill(self._process.pid, signal.SIGCONT)

    def discard(self) -> None:
        """After the test, whatever its result. SIGKILL ends a frozen process too."""
        if self.is_running:
            self.kill()

    async def _ended(self) -> int | None:
        await asyncio.to_thread(self._process.join, PATIENCE_SECONDS)
        return self._process.exitcode

    def _state(self) -> str:
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0]

    def _tail(self, what: str) -> str:
        code = self._process.exitcode
        return f"{self._log.stem} {what} (exit {code})\n{self.log[-LOG_SHOWN_CHARACTERS:]}"


def _act(options: list[str], log: Path, folder: Path) -> None:
    """The whole life of the forked process."""
    os.chdir(folder)
    with log.open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    chaos_worker.main(options)
