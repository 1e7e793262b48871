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
        async with woken_by(self._store, Announced.WORK, self.wake, self._limits):
            while not self._stopping.is_set():
                self._woken.clear()
                room = self._limits.jobs_in_parallel - len(self._processor.held)
                taken = await self._take(room) if room else 0
                # Those that end while it asks how long to rest are an occasion, too.
                held = self._processor.held
                await self._next_occasion(held, await self._rest_seconds(taken, room))

    async def _take(self, most: int) -> int:
        try:
            return await self._processor.take_due(most)
        except StoreUnavailable as error:
            log.warning("claim_failed", error=error.message)
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return 0

    async def _rest_seconds(self, taken: int, room: int) -> float | None:
        """How long until there may be something due that nobody tells of; None: no room for it."""
        if taken == room:
            return None
        try:
            due_seconds = await self._processor.next_due_seconds()
        except StoreUnavailable:
            return self._limits.idle_poll_seconds
        if due_seconds is None:
            return self._limits.idle_poll_seconds
        # What is due and was not to be had is with another worker, or will be in a moment.
        soonest = 0.0 if taken else self._limits.claim_pause_seconds
        return min(max(due_seconds, soonest), self._limits.idle_poll_seconds)

    async def _next_occasion(
        self, held: frozenset[asyncio.Task[None]], rest_seconds: float | None
    ) -> None:
        """Return when a job has ended, when told to stop, or, with room left, after that rest."""
        if self._stopping.is_set():
            return
        room = rest_seconds is not None
        occasion = asyncio.create_task((self._woken if room else self._stopping).wait())
        try:
            await asyncio.wait(
                {occasion, *held},
                timeout=rest_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            occasion.cancel()
