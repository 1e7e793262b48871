"""A simulated process: what it may still do, and its own view of clock and ids.

A killed process is never heard of again: whatever port it calls, it gets no answer. A frozen one
gets its answers late. That is what others see of SIGKILL and SIGSTOP.
"""

import asyncio
import random
from datetime import datetime

from outrider.domain.ids import RANDOM_BYTES_PER_UUID, TICKS_PER_MS, WorkerId, uuid7_batch
from outrider.testing.simulation.virtual_time import EPOCH, moment


class Process:
    def __init__(self, name: str, seed: int, fuse: int | None = None) -> None:
        self.worker_id = WorkerId(name)
        self.random = random.Random(f"{seed} {name}")
        self.died = asyncio.Event()
        self.is_over = False
        """With the whole world: then whoever waits ends."""
        self.clock_ahead_seconds = 0.0
        self.calls = 0
        """Calls of ports so far: each is a place to die."""
        self._fuse = fuse
        self._unanswered: list[asyncio.Future[None]] = []
        self._resumed = asyncio.Event()
        self._resumed.set()

    @property
    def is_well(self) -> bool:
        """It lives, and is not frozen."""
        return self._resumed.is_set() and not self.died.is_set()

    def kill(self) -> None:
        self.died.set()

    def freeze(self) -> None:
        self._resumed.clear()

    def resume(self) -> None:
        self._resumed.set()

    async def reach(self) -> None:
        """Before and after everything that others can see."""
        if self.is_over:
            raise asyncio.CancelledError
        self.calls += 1
        if self._fuse is not None and self.calls >= self._fuse:
            self.kill()
        await self._resumed.wait()
        if self.died.is_set():
            never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            # Kept: what only waits for itself is cleared away, and would run its last steps.
            self._unanswered.append(never)
            await never

    async def take(self, least_seconds: float, most_seconds: float) -> None:
        await asyncio.sleep(self.random.uniform(least_seconds, most_seconds))
        await self.reach()


class ProcessClock:
    def __init__(self, process: Process, loop: asyncio.AbstractEventLoop) -> None:
        self._process = process
        self._loop = loop

    def now(self) -> datetime:
        return moment(self._loop.time() + self._process.clock_ahead_seconds)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._process.reach()


class SeededIds:
    """One for the world: ids sort by the time at which they were made, as real ones do."""

    def __init__(self, seed: int, loop: asyncio.AbstractEventLoop) -> None:
        self._random = random.Random(f"{seed} ids")
        self._loop = loop
        self._next_tick = 0

    def new(self) -> str:
        return self.batch(1)[0]

    def batch(self, count: int) -> list[str]:
        milliseconds = EPOCH.timestamp() * 1_000 + self._loop.time() * 1_000
        first = max(int(milliseconds * TICKS_PER_MS), self._next_tick)
        self._next_tick = first + count
        return list(uuid7_batch(first, self._random.randbytes(RANDOM_BYTES_PER_UUID * count)))

    def jitter(self) -> float:
        return self._random.random()
