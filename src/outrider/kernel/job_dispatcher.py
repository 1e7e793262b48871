"""The job dispatcher: whatever is due in the queue, it has the processor take, up to a bound.

It looks when the database or this process says that it is worth it, when the next job falls due,
when a job here has ended, and now and then for what nobody told.
"""

import asyncio

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.ear import woken_by
from outrider.kernel.job_processor import JobProcessor
from outrider.ports.clock import Clock
from outrider.ports.store import Announced, Store
from outrider.settings import Limits

log = structlog.get_logger()


class JobDispatcher:
    def __init__(self, processor: JobProcessor, store: Store, clock: Clock, limits: Limits) -> None:
        self._processor = processor
        self._store = store
        self._clock = clock
        self._limits = limits
        self._stopping = asyncio.Event()
        self._woken = asyncio.Event()

    def stop(self) -> None:
        """Claim no more."""
        self._stopping.set()
        self._woken.set()

    def wake(self) -> None:
        """There may be something due; cheap, and safe to call for nothing."""
        self._woken.set()

    async def run(self) -> None:
        """Claim and process until told to stop; who runs it waits for what is held then."""
        self._processor.when_there_is_room(self.wake)
        worth_a_claim = True
        async with woken_by(self._store, Announced.WORK, self.wake, self._limits):
            while not self._stopping.is_set():
                self._woken.clear()
                rest_seconds = await self._round(worth_a_claim=worth_a_claim)
                woken = await self._rest(rest_seconds)
                # After a whole rest it only looks, which costs less.
                worth_a_claim = woken or rest_seconds != self._limits.idle_poll_seconds

    async def _round(self, *, worth_a_claim: bool) -> float | None:
        """Take what is due; for how long to rest then. None: until something happens."""
        room = self._processor.room
        if room <= 0:
            return None
        try:
            if worth_a_claim:
                taken, due_seconds = await self._processor.take_due(room)
            else:
                taken, due_seconds = 0, await self._processor.next_due_seconds()
        except StoreUnavailable as error:
            log.warning("claim_failed", error=error.message)
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return 0.0
        if taken == room:
            return None
        whole = self._limits.idle_poll_seconds
        if due_seconds is None:
            return whole
        # What is due and was not to be had is with another worker, or will be in a moment.
        soonest = self._limits.claim_pause_seconds if worth_a_claim and not taken else 0.0
        return min(max(due_seconds, soonest), whole)

    async def _rest(self, seconds: float | None) -> bool:
        """Whether it was woken before the time was over."""
        try:
            async with asyncio.timeout(seconds):
                return await self._woken.wait()
        except TimeoutError:
            return False
