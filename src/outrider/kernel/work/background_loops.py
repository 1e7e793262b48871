"""The background loops: the loops beside the sending, each once a process, whoever else runs there.

A worker and a server in one process both ask it to run; the second takes over when the first ends.
A loop that fails is begun again: nothing beside the sending may ever end it.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock

log = structlog.get_logger()

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Runs until cancelled, and deals with a store that is gone for a while."""


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
