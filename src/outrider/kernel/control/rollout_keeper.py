"""The rollout keeper: takes launches from one step of their rollout to the next.

A step ends when everything of it was sent; then it is held. Its hold over, the next step is
released, unless a rate of the run is above its limit: then the run is paused, and says which. A
step that waits for a winner among variants is released once one is chosen, by receipts or by a
person. The keeper keeps no state in memory, and any number may run at once.
"""

from datetime import datetime, timedelta

import structlog

from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import OutriderError, StoreError
from outrider.domain.ids import RunId
from outrider.domain.phases import Action
from outrider.domain.signals import Signal
from outrider.kernel.control.phase_controller import PhaseController
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import pause_rates, rollouts, variants
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.phase_controls import Control
from outrider.kernel.transactions.rollouts import OpenRollout
from outrider.kernel.work.engine_notifier import EngineNotifier

log = structlog.get_logger()

ACTOR = "rollout_keeper"


class RolloutKeeper:
    def __init__(
        self,
        foundation: Foundation,
        controller: PhaseController,
        engine_notifier: EngineNotifier,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._controller = controller
        self._engine_notifier = engine_notifier
        self._compared_at: dict[RunId, datetime] = {}

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.rollout_look_seconds)
            try:
                await self.look()
            except StoreError as error:
                log.warning("rollouts_not_read", error=error.message)

    async def look(self) -> None:
        """Every rollout that is under way, once."""
        await self._store.write(rollouts.close_ended(self._clock.now()))
        after, most = FIRST, self._limits.rollouts_page
        while True:
            page = await self._store.read(rollouts.open_rollouts(after, most))
            for each in page:
                await self._advance(each)
            if len(page) < most:
                return
            after = page[-1].run_id

    async def _advance(self, at: OpenRollout) -> None:
        now = self._clock.now()
        if at.is_sending:
            await self._paused(at)
            return
        if at.ended_at is None:
            if await self._store.write(rollouts.end_step(at, now)):
                log.info("rollout_step_ended", run_id=at.run_id, step=at.step)
            at = at._replace(ended_at=now)
        hold_until = at.progress.hold_until
        if not at.has_next or (hold_until is not None and now < hold_until):
            await self._paused(at)
        elif not await self._paused(at, at_hold_end=True) and await self._has_winners(at):
            await self._release(at)

    async def _has_winners(self, at: OpenRollout) -> bool:
        """Whether every variant of the next step is chosen, or receipts choose it now. If they do
        not decide, they are asked again a while later, unless a person was faster."""
        if not at.awaits_winner:
            self._compared_at.pop(at.run_id, None)
            return True
        now = self._clock.now()
        again = timedelta(seconds=self._limits.winner_look_seconds)
        if now < self._compared_at.get(at.run_id, now - again) + again:
            return False
        self._compared_at[at.run_id] = now
        chosen, figures = await self._store.read(
            variants.leaders(at.scope, at.campaign_id, at.run_id)
        )
        for each in chosen:
            found = variants.Leader(at.run_id, each, figures)
            if await self._store.write(rollouts.choose_by_receipts(at, found, now)):
                log.info(
                    "winner_chosen", run_id=at.run_id, message=each.message_id, variant=each.variant
                )
        waiting = (await self._store.read(variants.undecided([at.run_id]))).get(at.run_id)
        return not waiting

    async def _release(self, at: OpenRollout) -> None:
        if await self._store.write(rollouts.release_by_plan(at, self._clock.now())):
            log.info("rollout_step_released", run_id=at.run_id, step=at.step + 1)
            await self._engine_notifier.steered(at.scope.tenant_id, at.run_id, Signal.ADVANCE)

    async def _paused(self, at: OpenRollout, *, at_hold_end: bool = False) -> bool:
        """Whether the run was paused for a rate that nobody has seen in this step yet."""
        limits, figures = await self._store.read(pause_rates.judged(at.scope, at.run_id))
        exceeded = [
            each
            for each in figures.exceeded(limits, at_hold_end=at_hold_end)
            if each.limit not in at.halted_for
        ]
        if not exceeded:
            return False
        reason = "; ".join(each.description for each in exceeded)
        control = Control(
            Action.PAUSE, ACTOR, run_id=at.run_id, reason=reason,
            guard=rollouts.halting(at, exceeded, self._clock.now()),
        )  # fmt: skip
        try:
            await self._controller.control(at.scope, at.campaign_id, LAUNCH, control)
        except StoreError:
            raise
        except OutriderError as refusal:
            # It has ended, or was paused by somebody else: either way nothing more is released.
            log.info("rollout_not_paused", run_id=at.run_id, error=refusal.message)
            return True
        log.warning("rollout_halted", run_id=at.run_id, step=at.step, reason=reason)
        return True
