"""The refusal recorder: puts every refused signal into its run's log, at a bounded rate.

Up to a limit per period they are recorded individually. Further refusals are counted on the run's
row and recorded as one event at the end of the period or with the next refusal.
"""

from collections.abc import Callable
from datetime import timedelta

import structlog

from outrider.domain.errors import OutriderError, StoreError
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.phases import Action
from outrider.domain.signals import AskedSignal
from outrider.kernel.control.tried_again import tried_again
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import campaigns, signals
from outrider.kernel.transactions.steering import SIGNALS
from outrider.ports.store import Transaction

log = structlog.get_logger()


class RefusalRecorder:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def record(
        self,
        run_id: RunId,
        asked: AskedSignal,
        actor: str,
        refused: OutriderError,
        *,
        under_id: bool,
    ) -> None:
        """With an id, a signal that is sent again gets the same decision again."""
        log.warning(
            "signal_rejected", run_id=run_id, signal=asked.signal.value, reason=refused.message
        )
        await self._written(
            lambda: self._script(
                run_id, asked, actor, refused.message, refused.code, under_id=under_id
            )
        )

    async def record_at_door(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        phase: str | None,
        action: Action,
        actor: str,
        refused: tuple[str, str],
    ) -> None:
        """A control of a phase is a signal to its run, even one that is refused on arrival. Without
        a phase: the one in progress."""
        if action not in SIGNALS:
            return
        run_id = await self._store.read(campaigns.current_run(scope, campaign_id, phase))
        if run_id is None:
            return
        asked = AskedSignal(SIGNALS[action], self._ids.new())
        code, reason = refused
        log.warning("signal_rejected", run_id=run_id, signal=asked.signal.value, reason=reason)
        await self._written(
            lambda: self._script(run_id, asked, actor, reason, code, under_id=False)
        )

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.refusals_seconds / 2)
            try:
                await self.record_counted()
            except StoreError as error:
                log.warning("refusals_not_recorded", error=error.message)

    async def record_counted(self) -> int:
        """Record what was only counted, one event per run; returns how many runs had such
        refusals."""
        limits = self._limits
        since = self._clock.now() - timedelta(seconds=limits.refusals_seconds)
        found = await self._store.read(signals.unrecorded(since, limits.refusals_page_runs))
        for run_id in found:
            await self._store.write(signals.record_counted(run_id, since, self._clock.now()))
        return len(found)

    async def _written(self, script: Callable[[], Transaction[None]]) -> None:
        await tried_again(self._store, script, self._clock, self._limits)

    def _script(
        self,
        run_id: RunId,
        asked: AskedSignal,
        actor: str,
        reason: str,
        code: str,
        *,
        under_id: bool,
    ) -> Transaction[None]:
        refused = signals.RefusedSignal(asked, actor, reason, code, under_id)
        period = timedelta(seconds=self._limits.refusals_seconds)
        most = self._limits.refusals_recorded
        return signals.refuse(run_id, refused, most, period, self._clock.now())
