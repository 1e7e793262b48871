"""The engine notifier: informs the engine of decisions, and of work that is stalled.

It reports only what is committed, so a failure is harmless: no control fails because of it, and
whatever could not be reported is found in the queue shortly after.
"""

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog

from outrider.domain.errors import OutriderError, StoreError
from outrider.domain.ids import RunId, TenantId
from outrider.domain.signals import Signal
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.announcement_listener import woken_by
from outrider.kernel.transactions import work
from outrider.ports.engine import Engine, Stalled, Work, WorkKind
from outrider.ports.store import Announced

log = structlog.get_logger()

Answer = TypeVar("Answer")


class EngineNotifier:
    def __init__(self, foundation: Foundation, engine: Engine) -> None:
        self._engine = engine
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._ask_again_at: dict[Stalled | Work, datetime] = {}
        self._deaf_until: datetime | None = None
        self.deaf_since: datetime | None = None
        """Since when the engine has not answered; None while it does."""
        self._woken = asyncio.Event()
        self._notifying: set[asyncio.Task[None]] = set()

    async def released(self, tenant_id: TenantId, run_id: RunId) -> None:
        """A run may start."""
        await self._notify_soon(self._engine.start(Work(WorkKind.RUN, tenant_id, run_id)))

    async def steered(
        self, tenant_id: TenantId, run_id: RunId, signal: Signal, step_id: str | None = None
    ) -> None:
        run = Work(WorkKind.RUN, tenant_id, run_id)
        await self._notify_soon(self._engine.signal(run, signal, step_id))

    def wake(self) -> None:
        """There may be something due; cheap, and safe to call for nothing."""
        self._woken.set()

    async def run(self) -> None:
        """Look for stalled work periodically; runs until cancelled."""
        async with woken_by(self._store, Announced.WORK, self.wake, self._limits):
            while True:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.stalled_look_seconds):
                        await self._woken.wait()
                self._woken.clear()
                try:
                    await self.recover_once()
                except StoreError as error:
                    log.warning("stalled_work_not_read", error=error.message)

    async def away_since(self) -> datetime | None:
        """Asks the engine whether it answers. An engine that polls the queue has no server."""
        if not self._engine.polls_queue:
            await self._notify(self._engine.check())
        return self.deaf_since

    async def recover_once(self) -> Collection[Stalled]:
        """Report stalled work to the engine, the same work only once per interval."""
        now = self._clock.now()
        before = now - timedelta(seconds=self._limits.stalled_after_seconds)
        self._ask_again_at = {each: at for each, at in self._ask_again_at.items() if at > now}
        # Read beyond the recently reported ones, so that many of those cannot hide new ones.
        most = min(self._limits.stalled_page + len(self._ask_again_at), self._limits.stalled_most)
        found = await self._store.read(work.stalled(before, most, now))
        fresh = [
            each
            for each in found
            if each not in self._ask_again_at and each.work not in self._ask_again_at
        ]
        reported: list[Stalled] = []
        # In batches: each gets the engine's full timeout, and reported ones stay reported.
        for first in range(0, len(fresh), self._limits.stalled_told_at_once):
            part = fresh[first : first + self._limits.stalled_told_at_once]
            answer = await self._notify(self._engine.recover(part))
            if answer is None:
                break
            self._remember(part, answer)
            reported += answer
        return reported

    def _remember(self, asked: Sequence[Stalled], reported: Collection[Stalled]) -> None:
        """Work already handed out may be taken, or given back, at any time. A run's next job is
        then handed out too; and the more work there is, the less often each is reported."""
        limits, now = self._limits, self._clock.now()
        known = {
            each.work if each.work.kind is WorkKind.RUN else each
            for each in asked
            if each not in reported
        }
        remembered = len(self._ask_again_at) + len(known)
        soon = max(limits.stalled_recheck_seconds, remembered / limits.stalled_asked_per_second)
        later = now + timedelta(seconds=limits.stalled_retell_seconds)
        self._ask_again_at |= dict.fromkeys(known, now + timedelta(seconds=soon))
        self._ask_again_at |= dict.fromkeys(reported, later)

    async def _notify_soon(self, notification: Coroutine[Any, Any, None]) -> None:
        """An engine that does not answer must not delay the caller: it is notified in the
        background, or finds out shortly after."""
        task = asyncio.create_task(self._notify(notification))
        self._notifying.add(task)
        task.add_done_callback(self._notifying.discard)
        _, late = await asyncio.wait({task}, timeout=self._limits.engine_wait_seconds)
        if late:
            self._rest()

    async def _notify(self, notification: Coroutine[Any, Any, Answer]) -> Answer | None:
        """None if the engine could not be notified. After a timeout it is left alone for a while,
        so that later notifications do not all wait for it."""
        if self._deaf_until is not None and self._clock.now() < self._deaf_until:
            notification.close()
            return None
        asked_at = self._clock.now()
        try:
            async with asyncio.timeout(self._limits.engine_tell_seconds):
                answer = await notification
        except (OutriderError, TimeoutError) as error:
            log.warning("engine_not_told", error=str(error) or "no answer in time")
            self.deaf_since = self.deaf_since or asked_at
            self._rest()
            return None
        self._deaf_until = self.deaf_since = None
        return answer

    def _rest(self) -> None:
        rest = timedelta(seconds=self._limits.engine_deaf_seconds)
        self._deaf_until = self._clock.now() + rest
