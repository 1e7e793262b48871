"""The phase restorer: reconciles phases and runs that a manual database change made inconsistent.

Every server runs it continuously. A database trigger records each phase change that came without
its event, so nothing is missed while no server runs.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

import msgspec
import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import CampaignId
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import phase_repairs
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.phase_repairs import PhaseKey, RunLeftRunning, UnreadBypass
from outrider.kernel.transactions.steering import SIGNALS
from outrider.kernel.work.engine_notifier import EngineNotifier

log = structlog.get_logger()

Key = TypeVar("Key", PhaseKey, RunLeftRunning)


class PhaseRestorer:
    def __init__(
        self, foundation: Foundation, hub: EventHub, engine_notifier: EngineNotifier
    ) -> None:
        self._store = foundation.store
        self._hub = hub
        self._engine_notifier = engine_notifier
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._logged: set[str] = set()
        """Bypasses that were logged but whose phase could not be repaired yet."""

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.bypass_poll_seconds)
            try:
                await self.restore()
            except StoreUnavailable as error:
                log.warning("phases_not_restored", error=error.message)

    async def restore(self) -> int:
        """Log changes that bypassed the state machine and repair inconsistencies, in windows until
        none are left; returns how many phases and runs were changed."""
        repaired = await self._of_bypasses()
        repaired += await self._of_ended_runs()
        repaired += await self._of_left_runs()
        # The repairs are bypasses too, and are logged like any other.
        return repaired + await self._of_bypasses()

    async def _of_bypasses(self) -> int:
        repaired, after, kept = 0, FIRST, set[str]()
        while page := await self._store.read(
            phase_repairs.unread_bypasses(after, self._limits.bypass_page)
        ):
            self._log(page)
            keys = {PhaseKey(each.campaign_id, each.phase) for each in page}
            outcomes = {key: await self._attempted(key, self._reconcile) for key in keys}
            repaired += sum(bool(outcome) for outcome in outcomes.values())
            failed = {key for key, outcome in outcomes.items() if outcome is None}
            left = {each.id for each in page if PhaseKey(each.campaign_id, each.phase) in failed}
            await self._forget(page, left)
            kept |= left
            after = page[-1].id
        self._logged = kept
        return repaired

    def _log(self, page: Collection[UnreadBypass]) -> None:
        for each in page:
            if each.id not in self._logged:
                fields = msgspec.json.decode(each.detail)
                log.warning(
                    "P3.4: Transition bypass detected", campaign_id=each.campaign_id, **fields
                )

    async def _forget(self, page: Collection[UnreadBypass], left: Collection[str]) -> None:
        read = [each.id for each in page if each.id not in left]
        if read:
            await self._store.write(phase_repairs.forget_bypasses(read))

    async def _of_ended_runs(self) -> int:
        repaired, after = 0, PhaseKey(CampaignId(FIRST), "")
        while page := await self._store.read(
            phase_repairs.disagreeing_phases(after, self._limits.bypass_page)
        ):
            for key in page:
                repaired += bool(await self._attempted(key, self._reconcile))
            after = page[-1]
        return repaired

    async def _of_left_runs(self) -> int:
        repaired, after = 0, FIRST
        while page := await self._store.read(
            phase_repairs.runs_left_running(after, self._limits.bypass_page)
        ):
            for left in page:
                repaired += bool(await self._attempted(left, self._stop))
            after = page[-1].id
        return repaired

    async def _attempted(self, key: Key, step: Callable[[Key], Awaitable[bool]]) -> bool | None:
        """Whether it changed anything; None if it failed, which does not affect the others."""
        try:
            return await step(key)
        except phase_repairs.ChangedMeanwhile:
            return False
        except StoreUnavailable:
            raise
        except Exception:
            log.exception("phase_not_restored", campaign_id=key.campaign_id, phase=key.phase)
            return None

    async def _stop(self, left: RunLeftRunning) -> bool:
        """A phase's current run follows its phase; a run that no phase refers to is stopped."""
        now = self._clock.now()
        if not await self._store.write(phase_repairs.stop_left_over(left, self._ids, now)):
            return await self._reconcile(PhaseKey(left.campaign_id, left.phase))
        log.warning(
            "run_stopped", run_id=left.id, campaign_id=left.campaign_id, phase=left.phase,
            reason="no phase names it",
        )  # fmt: skip
        return True

    async def _reconcile(self, key: PhaseKey) -> bool:
        now = self._clock.now()
        repaired = await self._store.write(phase_repairs.reconcile(*key, self._ids, now))
        if repaired is None:
            return False
        log.warning(
            "phase_restored", campaign_id=key.campaign_id, phase=key.phase,
            state=repaired.state.value, run_id=repaired.run_id, reason=repaired.reason,
            run_followed_by=repaired.action.value if repaired.action else None,
        )  # fmt: skip
        self._hub.wake(key.campaign_id)
        if repaired.action is not None and repaired.run_id is not None:
            signal = SIGNALS[repaired.action]
            await self._engine_notifier.steered(repaired.scope.tenant_id, repaired.run_id, signal)
        return True
