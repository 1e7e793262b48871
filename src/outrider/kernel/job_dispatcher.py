"""The job dispatcher: whatever is due in the queue, it has the processor take, up to a bound."""

import asyncio

import structlog

from outrider.domain.errors import StoreError, StoreUnavailable
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
        listening = asyncio.create_task(self._listen(), name="job dispatcher's ear")
        try:
            while not self._stopping.is_set():
                self._woken.clear()
                room = self._limits.jobs_in_parallel - len(self._processor.held)
                taken = await self._take(room) if room else 0
                await self._next_occasion(idle=not taken)
        finally:
            listening.cancel()

    async def _listen(self) -> None:
        """Wake on what the database itself tells; where it tells nothing, polling is enough."""
        while True:
            try:
                async for _ in self._store.announcements(Announced.WORK):
                    self.wake()
                return
            except StoreError as error:
                log.warning("announcements_lost", error=error.message)
            await self._clock.sleep(self._limits.store_backoff_seconds)

    async def _take(self, most: int) -> int:
        try:
            return await self._processor.take_due(most)
        except StoreUnavailable as error:
            log.warning("claim_failed", error=error.message)
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return 0

    async def _next_occasion(self, *, idle: bool) -> None:
        """Return when a job has ended, when told to stop, or, with room left, after a pause."""
        held = self._processor.held
        room = len(held) < self._limits.jobs_in_parallel
        if self._stopping.is_set() or (room and not idle):
            return
        occasion = asyncio.create_task((self._woken if room else self._stopping).wait())
        try:
            await asyncio.wait(
                {occasion, *held},
                timeout=self._limits.idle_poll_seconds if room else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            occasion.cancel()
