"""The rate pauser: pauses a campaign of which more bounces, or is complained of, than it allows.

It looks when a run has got worse, and pauses a run for each of its reasons once: whoever resumes it
has seen them.
"""

import asyncio

import structlog

from outrider.domain.errors import OutriderError, StoreUnavailable
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.phases import Action
from outrider.kernel.control.phase_controller import PhaseController
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import pause_rates
from outrider.kernel.transactions.phase_controls import Control

log = structlog.get_logger()

ACTOR = "rate_pauser"


class RatePauser:
    def __init__(self, foundation: Foundation, controller: PhaseController) -> None:
        self._store = foundation.store
        self._controller = controller
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._worse: set[tuple[Scope, RunId]] = set()
        self._woken = asyncio.Event()

    def note(self, worse: frozenset[tuple[Scope, RunId]]) -> None:
        """More of these runs bounced, or was complained of, than before."""
        self._worse |= worse
        self._woken.set()

    async def run(self) -> None:
        """The loop of the role; runs until cancelled. It starts with every run whose rates got
        worse before, because the process that noted that may have died before checking it."""
        await self._remember()
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._worse:
                scope, run_id = self._worse.pop()
                try:
                    await self.judge(scope, run_id)
                except StoreUnavailable as error:
                    log.warning("rates_not_read", run_id=run_id, error=error.message)
                    self._worse.add((scope, run_id))
                    await self._clock.sleep(self._limits.store_backoff_seconds)

    async def _remember(self) -> None:
        while True:
            try:
                worse = pause_rates.worse_runs(self._limits.page_items)
                self.note(await self._store.read(worse))
                return
            except StoreUnavailable as error:
                log.warning("rates_not_read", error=error.message)
                await self._clock.sleep(self._limits.store_backoff_seconds)

    async def judge(self, scope: Scope, run_id: RunId) -> str | None:
        """Why the run was paused, if it was."""
        run, reason = await self._store.read(
            pause_rates.reason_to_pause(scope, run_id, ACTOR, self._limits.page_items)
        )
        if reason is None:
            return None
        control = Control(Action.PAUSE, ACTOR, run_id=run_id, reason=reason)
        try:
            answer = await self._controller.control(
                scope, CampaignId(run.campaign_id), run.phase, control
            )
        except StoreUnavailable:
            raise
        except OutriderError as refusal:
            # It has ended: there is nothing to pause.
            log.info("campaign_not_paused", run_id=run_id, reason=reason, error=refusal.message)
            return None
        if not answer.changed:
            log.info("campaign_not_paused", run_id=run_id, reason=reason, error="it is paused")
            return None
        log.warning("campaign_paused", run_id=run_id, reason=reason)
        return reason
