"""Worker processes that are killed by the hundred: forked warm, and struck while they call.

Each says when its first call begins, so that whoever strikes need not guess; then it is only a
matter of milliseconds which call, close, claim or look-up is cut off.
"""

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import uvloop

from outrider.bootstrap import open_outrider
from outrider.domain.retry import RetrySchedule
from outrider.limits.kernel import Limits
from outrider.ports.stages import Stage
from outrider.rendering.pool import RenderPool
from outrider.settings import Settings
from outrider.telemetry import configure_logging
from tests.support.forked import forkserver

RETRY = RetrySchedule(first_seconds=0.05)
POLL_SECONDS = 0.002
PATIENCE_SECONDS = 60.0
LIFE_MAX_SECONDS = 900


class DoomedWorker:
    def __init__(self, settings: Settings, limits: Limits, log: Path) -> None:
        self._calling, told = forkserver.Pipe(duplex=False)
        self._process = forkserver.Process(
            target=_act, args=(settings, limits, log, told), daemon=True
        )
        self._process.start()
        told.close()

    async def until_it_calls(self, seconds: float) -> bool:
        """Wait for its first call; False: there is nothing for it to call."""
        deadline = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < deadline:
            if self._calling.poll():
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive and self._process.pid is not None:
            # It may end between the two.
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def gone(self) -> None:
        await asyncio.to_thread(self._process.join, PATIENCE_SECONDS)
        self._calling.close()


class _Observer:
    """Says once that a call begins."""

    def __init__(self, told: Connection) -> None:
        self._told: Connection | None = told

    def before(self, stage: Stage) -> None:
        if stage is Stage.CALL and self._told is not None:
            self._told.send_bytes(b"!")
            self._told = None

    def after(self, stage: Stage) -> None:
        pass


def _act(settings: Settings, limits: Limits, log: Path, told: Connection) -> None:
    """The whole life of the forked process, which must not outlive a test that is interrupted."""
    signal.alarm(LIFE_MAX_SECONDS)
    os.chdir(log.parent)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    configure_logging("json")
    # No text of theirs is a template, and starting a renderer costs more than the rest of a life.
    RenderPool.start = _not_started  # type: ignore[method-assign,assignment]
    uvloop.run(_work(settings, limits, told))


async def _not_started(_pool: RenderPool) -> None:
    pass


async def _work(settings: Settings, limits: Limits, told: Connection) -> None:
    async with (
        open_outrider(settings, limits=limits) as outrider,
        outrider.worker(retry=RETRY, observer=_Observer(told)) as worker,
    ):
        await worker.run()


class Executioner:
    """Keeps so many workers at work and kills them, one after another, at random moments."""

    def __init__(
        self, settings: Settings, limits: Limits, log: Path, dice: random.Random, workers: int
    ) -> None:
        self._made = settings, limits, log
        self._dice = dice
        self._workers = workers
        self.kills = 0
        self.idle_kills = 0
        """Of those that had nothing to call: while they looked for work, or settled doubts."""

    async def kill(self, times: int, *, idle_seconds: float, most_seconds: float) -> None:
        """`most_seconds`: how long after its first call each lives at most."""
        left: Iterator[int] = iter(range(times))
        async with asyncio.TaskGroup() as group:
            for _ in range(self._workers):
                group.create_task(self._kill_in_turn(left, idle_seconds, most_seconds))

    async def _kill_in_turn(
        self, left: Iterator[int], idle_seconds: float, most_seconds: float
    ) -> None:
        for _ in left:
            worker = DoomedWorker(*self._made)
            was_calling = await worker.until_it_calls(idle_seconds)
            await asyncio.sleep(self._dice.uniform(0, most_seconds))
            worker.kill()
            await worker.gone()
            self.kills += 1
            self.idle_kills += not was_calling
