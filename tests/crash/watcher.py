"""Looks at a run without pause: at every look the accounting adds up and nothing done is undone."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from outrider.bootstrap import Outrider
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import RunId
from outrider.domain.outbox import Accounting
from outrider.domain.states import TERMINAL_RUNS, RunStatus
from outrider.testing.launches import observe

LOOK_SECONDS = 0.01


class Look:
    """What one look saw."""

    def __init__(self, status: RunStatus, accounting: Accounting) -> None:
        self.status = status
        self.accounting = accounting

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL_RUNS

    @property
    def is_at_rest(self) -> bool:
        """Nothing is left that a worker could do: everything is terminal or in doubt."""
        return self.is_terminal or self.accounting.waiting == 0

    def __repr__(self) -> str:
        return f"{self.status}: {self.accounting}"


class Watcher:
    def __init__(self, outrider: Outrider, run_id: RunId) -> None:
        self._outrider = outrider
        self._run_id = run_id
        self._task = asyncio.create_task(self._watch(), name="accounting watcher")
        self.looks = 0
        self.latest: Look | None = None

    async def until(self, condition: Callable[[Look], bool], *, seconds: float = 120.0) -> Look:
        """Wait for a look that satisfies the condition."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self.latest is None or not condition(self.latest):
            if self._task.done():
                await self._task
            assert asyncio.get_running_loop().time() < deadline, f"waited in vain: {self.latest}"
            await asyncio.sleep(LOOK_SECONDS)
        return self.latest

    async def stop(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task
        assert self.looks, "nobody looked"

    async def _watch(self) -> None:
        terminal = 0
        while True:
            # Whoever has no database has nothing to look at; the next look will be as strict.
            with suppress(StoreUnavailable):
                run, accounting = await observe(self._outrider, self._run_id)
                assert accounting.holds, accounting
                assert accounting.terminal >= terminal, f"{terminal} were terminal: {accounting}"
                terminal = accounting.terminal
                self.latest = Look(RunStatus(run.status), accounting)
                self.looks += 1
            await asyncio.sleep(LOOK_SECONDS)
