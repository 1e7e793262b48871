"""The stop guard: an unresponsive database must not keep a process from ending.

During a stop, held jobs are finished and leases given back, however long that takes. If the
database has not answered at all for a while, the rest is left as after a crash, to its leases.
"""

import asyncio

import structlog

from outrider.domain.errors import StoreError
from outrider.kernel.foundation import Foundation

log = structlog.get_logger()


class StopGuard:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._watching: asyncio.Task[None] | None = None
        self._cut_off = asyncio.Event()

    def begin(self) -> None:
        """The stop has begun; repeating it changes nothing."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    async def ended(self, working: asyncio.Task[None], seconds: float | None = None) -> bool:
        """Whether it ended on its own, within the time limit if any, and before the database was
        given up. Otherwise it is cancelled."""
        giving_up = asyncio.create_task(self._cut_off.wait())
        try:
            await asyncio.wait(
                {working, giving_up}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        except asyncio.CancelledError:
            working.cancel()
            raise
        finally:
            giving_up.cancel()
        if working.done():
            return True
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return False

    def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        most, answered_at = self._limits.cut_off_stop_seconds, self._clock.monotonic()
        while True:
            await self._clock.sleep(self._limits.cut_off_look_seconds)
            try:
                await self._store.ping()
                answered_at = self._clock.monotonic()
            except StoreError as error:
                if self._clock.monotonic() - answered_at >= most:
                    log.error("stopped_without_database", seconds=most, error=error.message)
                    break
        self._store.abandon()
        self._cut_off.set()
