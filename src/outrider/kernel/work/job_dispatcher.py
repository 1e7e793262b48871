"""The job dispatcher: has the processor take due jobs from the queue, up to a bound.

It checks on a wake-up from the database or this process, when the next job becomes due, when a job
here has ended, and periodically in case a wake-up was missed.
"""

import asyncio

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.announcement_listener import woken_by
from outrider.ports.engine import Jobs
from outrider.ports.store import Announced

log = structlog.get_logger()


class JobDispatcher:
    def __init__(self, foundation: Foundation, processor: Jobs) -> None:
        self._processor = processor
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()
        self._is_woken = True
        self._has_rested = False

    def stop(self) -> None:
        """Claim no more."""
        self._stopping.set()
        self._woken.set()

    def wake(self) -> None:
        """There may be something due; cheap, and safe to call for nothing."""
        self._is_woken = True
        self._woken.set()
        self._processor.wake_lanes()

    def steered(self) -> None:
        """A run was paused, resumed or stopped."""
        self._processor.look_at_controls()
        self.wake()

    def _there_is_room(self) -> None:
        """A job here has ended, or is being settled: no lane becomes due because of that."""
        self._woken.set()

    async def run(self) -> None:
        """Claim and process until asked to stop; the caller waits for the jobs still held then."""
        self._processor.when_there_is_room(self._there_is_room)
        async with woken_by(self._store, Announced.WORK, self.wake, self._limits):
            while not self._stopping.is_set():
                self._woken.clear()
                rest_seconds = await self._round()
                await self._rest(rest_seconds)

    async def _round(self) -> float:
        """Take due jobs; returns how long to rest afterwards."""
        woken, self._is_woken = self._is_woken, False
        rested, self._has_rested = self._has_rested, False
        try:
            taken, due_seconds = await self._processor.take_due(woken=woken, rested=rested)
        except StoreUnavailable as error:
            log.warning("claim_failed", error=error.message)
            self._is_woken = True
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return 0.0
        whole = self._limits.idle_poll_seconds
        if due_seconds is None:
            return whole
        # Due jobs that could not be claimed are with another worker, or will be shortly.
        soonest = 0.0 if taken else self._limits.claim_pause_seconds
        return min(max(due_seconds, soonest), whole)

    async def _rest(self, seconds: float) -> None:
        """After a full rest, check for work that was not announced."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            self._has_rested = True
