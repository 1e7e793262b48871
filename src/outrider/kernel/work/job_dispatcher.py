"""The job dispatcher: whatever is due in the queue, it has the processor take, up to a bound.

It looks when the database or this process says that it is worth it, when the next job falls due,
when a job here has ended, and now and then for what nobody told.
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
        self._is_told = True
        self._has_rested = False

    def stop(self) -> None:
        """Claim no more."""
        self._stopping.set()
        self._woken.set()

    def wake(self) -> None:
        """There may be something due; cheap, and safe to call for nothing."""
        self._is_told = True
        self._woken.set()
        self._processor.wake_lanes()

    def steered(self) -> None:
        """Somebody paused, resumed or stopped a run."""
        self._processor.look_at_controls()
        self.wake()

    def _there_is_room(self) -> None:
        """A job here has ended, or is being settled: that makes no lane due."""
        self._woken.set()

    async def run(self) -> None:
        """Claim and process until told to stop; who runs it waits for what is held then."""
        self._processor.when_there_is_room(self._there_is_room)
        async with woken_by(self._store, Announced.WORK, self.wake, self._limits):
            while not self._stopping.is_set():
                self._woken.clear()
                rest_seconds = await self._round()
                await self._rest(rest_seconds)

    async def _round(self) -> float:
        """Take what is due; for how long to rest then."""
        told, self._is_told = self._is_told, False
        rested, self._has_rested = self._has_rested, False
        try:
            taken, due_seconds = await self._processor.take_due(told=told, rested=rested)
        except StoreUnavailable as error:
            log.warning("claim_failed", error=error.message)
            self._is_told = True
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return 0.0
        whole = self._limits.idle_poll_seconds
        if due_seconds is None:
            return whole
        # What is due and was not to be had is with another worker, or will be in a moment.
        soonest = 0.0 if taken else self._limits.claim_pause_seconds
        return min(max(due_seconds, soonest), whole)

    async def _rest(self, seconds: float) -> None:
        """After a whole rest it looks for what nobody told."""
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            self._has_rested = True
