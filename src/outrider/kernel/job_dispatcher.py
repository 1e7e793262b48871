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

Held = frozenset[asyncio.Task[None]]


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
        worth_a_claim = True
        async with woken_by(self._store, Announced.WORK, self.wake, self._limits):
            while not self._stopping.is_set():
                self._woken.clear()
                room = self._limits.jobs_in_parallel - len(self._processor.held)
                taken = await self._take(room) if room and worth_a_claim else 0
                # Those that end while it asks how long to rest are an occasion, too.
                held = self._processor.held
                if taken == room:
                    worth_a_claim = await self._occasion(held, self._stopping, None)
                    continue
                rest_seconds = await self._rest_seconds(in_vain=worth_a_claim and not taken)
                happened = await self._occasion(held, self._woken, rest_seconds)
                # After a whole rest it only looks: to claim costs a transaction.
                worth_a_claim = happened or rest_seconds < self._limits.idle_poll_seconds

    async def _take(self, most: int) -> int:
        try:
            return await self._processor.take_due(most)
        except StoreUnavailable as error:
            log.warning("claim_failed", error=error.message)
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return 0

    async def _rest_seconds(self, *, in_vain: bool) -> float:
        """How long until a job is due, by what is known now, or until it is time to look again."""
        whole = self._limits.idle_poll_seconds
        try:
            due_seconds = await self._processor.next_due_seconds()
        except StoreUnavailable as error:
            log.warning("queue_not_read", error=error.message)
            return whole
        if due_seconds is None:
            return whole
        # What is due and was not to be had is with another worker, or will be in a moment.
        soonest = self._limits.claim_pause_seconds if in_vain else 0.0
        return min(max(due_seconds, soonest), whole)

    async def _occasion(
        self, held: Held, signal: asyncio.Event, rest_seconds: float | None
    ) -> bool:
        """Wait for the signal, for the end of a job, or for so long; whether anything happened."""
        if self._stopping.is_set():
            return True
        signalled = asyncio.create_task(signal.wait())
        try:
            happened, _ = await asyncio.wait(
                {signalled, *held}, timeout=rest_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            signalled.cancel()
        return bool(happened)
