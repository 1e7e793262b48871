"""The background loops: run alongside the sending, each once per process.

A worker and a server in one process both start them; the second takes over when the first ends. A
loop that fails is restarted: a failing loop must never stop the sending.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock

log = structlog.get_logger()

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Runs until cancelled, and handles a store that is temporarily unavailable."""


class BackgroundLoops:
    def __init__(self, loops: Mapping[str, Loop], clock: Clock, limits: Limits) -> None:
        self._loops = loops
        self._clock = clock
        self._limits = limits
        self._busy = asyncio.Lock()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with self._busy, asyncio.TaskGroup() as group:
            for name, loop in self._loops.items():
                group.create_task(self._kept_up(name, loop), name=name)

    async def _kept_up(self, name: str, loop: Loop) -> None:
        while True:
            try:
                await loop()
            except Exception:
                log.exception("loop_failed", loop=name)
            await self._clock.sleep(self._limits.housekeeper_restart_seconds)
