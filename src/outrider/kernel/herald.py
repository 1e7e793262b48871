"""The herald: tells the engine what was decided, and of work that stands still.

It is told only of what is committed, so it may fail: a control never fails because of it, and
what it could not tell at once it finds in the queue a moment later.
"""

import asyncio
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

import structlog

from outrider.domain.errors import OutriderError, StoreError
from outrider.domain.ids import RunId, TenantId
from outrider.domain.signals import Signal
from outrider.kernel.transactions import work
from outrider.kernel.transactions.work import Stalled
from outrider.ports.clock import Clock
from outrider.ports.engine import Engine, Work, WorkKind
from outrider.ports.store import Store
from outrider.settings import Limits

log = structlog.get_logger()


class Herald:
    def __init__(self, engine: Engine, store: Store, clock: Clock, limits: Limits) -> None:
        self._engine = engine
        self._store = store
        self._clock = clock
        self._limits = limits
        self._told: dict[Stalled, datetime] = {}
        self._deaf_until: datetime | None = None

    async def let_go(self, tenant_id: TenantId, run_id: RunId) -> None:
        """A run may begin."""
        await self._tell(self._engine.start(Work(WorkKind.RUN, tenant_id, run_id)))

    async def steered(
        self, tenant_id: TenantId, run_id: RunId, signal: Signal, step_id: str | None = None
    ) -> None:
        run = Work(WorkKind.RUN, tenant_id, run_id)
        await self._tell(self._engine.signal(run, signal, step_id))

    async def run(self) -> None:
        """Look for work that stands still, again and again; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.stalled_look_seconds)
            try:
                await self.recover_once()
            except StoreError as error:
                log.warning("stalled_work_not_read", error=error.message)

    async def recover_once(self) -> list[Work]:
        """Tell the engine of what stands still, and of the same only every so often."""
        now = self._clock.now()
        before = now - timedelta(seconds=self._limits.stalled_after_seconds)
        found = await self._store.read(work.stalled(before, self._limits.stalled_page, now))
        since = now - timedelta(seconds=self._limits.stalled_retell_seconds)
        self._told = {each: at for each, at in self._told.items() if at > since}
        fresh = [each for each in found if each not in self._told]
        stalled = [each.work for each in fresh]
        if fresh and await self._tell(self._engine.recover(stalled)):
            self._told |= dict.fromkeys(fresh, now)
        return stalled

    async def _tell(self, telling: Coroutine[Any, Any, None]) -> bool:
        """Whether it was told. One that does not answer is left alone for a while, so that those
        who wait for the next telling do not all wait for it."""
        now = self._clock.now()
        if self._deaf_until is not None and now < self._deaf_until:
            telling.close()
            return False
        try:
            async with asyncio.timeout(self._limits.engine_tell_seconds):
                await telling
        except (OutriderError, TimeoutError) as error:
            log.warning("engine_not_told", error=str(error) or "no answer in time")
            self._deaf_until = now + timedelta(seconds=self._limits.engine_deaf_seconds)
            return False
        self._deaf_until = None
        return True
