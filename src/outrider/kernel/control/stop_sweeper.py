"""The stop sweeper: settles items that became waiting again after their job had ended.

A stopped or abandoned job does not wait for a worker that is considered dead. If that worker wakes,
it may still return items it never called, and no job is left to pick them up.
"""

from datetime import timedelta

import structlog

from outrider.domain.errors import StoreError
from outrider.domain.jobs import CANCELLED, JOB_DEAD
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import lost_jobs

log = structlog.get_logger()


class StopSweeper:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            for sweep in (self.sweep_once, self.forget_once):
                try:
                    await sweep()
                except StoreError as error:
                    log.warning("left_over_items_not_swept", error=error.message)
            await self._clock.sleep(self._limits.stop_sweep_seconds)

    async def sweep_once(self) -> int:
        """Returns how many items there were. Stopped and given-up jobs are handled separately, so a
        failure in one does not block the other."""
        now = self._clock.now()
        since = now - timedelta(seconds=self._limits.stop_swept_seconds)
        swept = 0
        for reason in (CANCELLED, JOB_DEAD):
            swept += await self._store.write(lost_jobs.bury_left_waiting(reason, since, now))
        if swept:
            log.info("left_over_items_swept", items=swept)
        return swept

    async def forget_once(self) -> int:
        before = self._clock.now() - timedelta(seconds=self._limits.lost_leases_kept_seconds)
        return await self._store.write(
            lost_jobs.forget_lost_leases(before, self._limits.lost_leases_forgotten)
        )
