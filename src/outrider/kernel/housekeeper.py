"""The housekeeper: the loops beside the sending, each once a process, whoever else runs there.

A worker and a server in one process both ask it to run; the second takes over when the first ends.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Runs until cancelled, and deals with a store that is gone for a while."""


class Housekeeper:
    def __init__(self, loops: Mapping[str, Loop]) -> None:
        self._loops = loops
        self._busy = asyncio.Lock()

    async def run(self) -> None:
        """Runs until cancelled. What a loop raises is a bug, and ends whoever runs it."""
        async with self._busy, asyncio.TaskGroup() as group:
            for name, loop in self._loops.items():
                group.create_task(loop(), name=name)
            await asyncio.Event().wait()
