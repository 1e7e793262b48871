"""The stop sweeper: gives an ending to items that came back after their stopped job had ended.

A stop does not wait for a worker that was taken for dead. When such a worker wakes it may still say
how its calls ended, and of those that it never began, that they wait again; nobody else would come.
"""

from datetime import timedelta

import structlog

from outrider.domain.errors import StoreError
from outrider.kernel.transactions import jobs
from outrider.ports.clock import Clock
from outrider.ports.store import Store
from outrider.settings import Limits

log = structlog.get_logger()


class StopSweeper:
    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                await self.sweep_once()
            except StoreError as error:
                log.warning("stopped_items_not_swept", error=error.message)
            await self._clock.sleep(self._limits.stop_sweep_seconds)

    async def sweep_once(self) -> int:
        """How many items there were."""
        now = self._clock.now()
        since = now - timedelta(seconds=self._limits.stop_swept_seconds)
        swept = await self._store.write(jobs.bury_left_waiting(since, now))
        if swept:
            log.info("stopped_items_swept", items=swept)
        return swept
