"""The presence keeper: each process reports every few seconds that it is alive, and which jobs it
takes. A process that has not reported for a while is frozen, cut off or dead; one that ends says
so.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog

from outrider.domain.errors import StoreError, StoreUnavailable
from outrider.domain.ids import WorkerId
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import workers
from outrider.kernel.transactions.workers import WorkerCard
from outrider.kernel.work.queue_turns import WorkFilter

log = structlog.get_logger()


class PresenceKeeper:
    def __init__(self, foundation: Foundation, process: WorkerCard) -> None:
        """`process` is how this process is shown while no worker runs in it."""
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._process = process
        self._cards: dict[WorkerId, WorkerCard] = {}
        self._forgot_at: datetime | None = None

    @asynccontextmanager
    async def working(self, worker_id: WorkerId, work_filter: WorkFilter) -> AsyncIterator[None]:
        """A worker runs in this process for as long as the block does."""
        targets = None if work_filter.targets is None else sorted(work_filter.targets)
        card = self._process._replace(
            id=worker_id, role="worker", targets=targets, mode=work_filter.mode
        )
        self._cards[worker_id] = card
        await self._tell(card)
        try:
            yield
        finally:
            self._cards.pop(worker_id, None)
            await self._leave(worker_id)

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        try:
            while True:
                await self.beat_once()
                await self._clock.sleep(self._limits.worker_beat_seconds)
        finally:
            if not self._cards:
                await self._leave(self._process.id)

    async def beat_once(self) -> None:
        for card in list(self._cards.values()) or [self._process]:
            await self._tell(card)
        now = self._clock.now()
        before = now - timedelta(seconds=self._limits.worker_forget_seconds)
        if self._forgot_at is not None and self._forgot_at > before:
            return
        try:
            await self._store.write(workers.forget(before))
            self._forgot_at = now
        except StoreUnavailable as error:
            log.warning("presence_not_written", error=error.message)

    async def _tell(self, card: WorkerCard) -> None:
        try:
            await self._store.write(workers.seen(card, self._clock.now()))
        except StoreUnavailable as error:
            # Other processes see it as silent, which it is to them.
            log.warning("presence_not_written", error=error.message)

    async def _leave(self, worker_id: WorkerId) -> None:
        try:
            await self._store.write(workers.left(worker_id))
        except StoreError as error:
            log.warning("presence_not_written", error=error.message)
