"""The run signaller: APPROVE, PAUSE, RESUME, CANCEL, RETRY_STEP, ADVANCE, DECIDE; authorised.

Each signal has one decision in its run's log. The decision itself changes no status; its effects
have their own events in the same transaction. A repeated signal id gets the same decision again.
"""

from collections.abc import Callable
from typing import assert_never

from outrider.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Problem,
)
from outrider.domain.ids import CampaignId, RunId
from outrider.domain.keys import Principal
from outrider.domain.phases import Action
from outrider.domain.signals import AskedSignal, Denied, Signal
from outrider.kernel.control.phase_controller import PhaseController
from outrider.kernel.control.refusal_recorder import RefusalRecorder
from outrider.kernel.control.tried_again import tried_again
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import (
    campaigns,
    run_records,
    signal_scripts,
)
from outrider.kernel.transactions.admission_gate import AdmissionGate
from outrider.kernel.transactions.phase_controls import Control
from outrider.kernel.transactions.run_records import RunRecord
from outrider.kernel.transactions.signal_scripts import SignalAnswer, SignalScripts
from outrider.kernel.transactions.steering import SIGNALS
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.ports.authorisation import Authorisation
from outrider.ports.store import Transaction

CONTROLS = {
    Signal.PAUSE: Action.PAUSE,
    Signal.RESUME: Action.RESUME,
    Signal.CANCEL: Action.STOP,
}


class RunSignaller:
    def __init__(
        self,
        foundation: Foundation,
        authorisation: Authorisation,
        refusals: RefusalRecorder,
        controller: PhaseController,
        gate: AdmissionGate,
        hub: EventHub,
        engine_notifier: EngineNotifier,
    ) -> None:
        self._store = foundation.store
        self._authorisation = authorisation
        self._refusals = refusals
        self._controller = controller
        self._scripts = SignalScripts(gate, foundation.clock, foundation.ids, foundation.limits)
        self._hub = hub
        self._engine_notifier = engine_notifier
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def signal(self, principal: Principal, run_id: RunId, asked: AskedSignal) -> SignalAnswer:
        run = await self._store.read(run_records.run(principal.scope, run_id))
        answered = await self._store.read(signal_scripts.answer(run_id, asked))
        if answered is not None:
            return answered
        verdict = await self._authorisation.decide(principal, asked.signal, run_id)
        if isinstance(verdict, Denied):
            denied = Forbidden(asked.signal.value, verdict.reason)
            # Not under its id: the id stays available to an authorised caller.
            await self._refusals.record(run_id, asked, principal.actor, denied, under_id=False)
            raise denied
        _check_fields(asked)
        try:
            changed = await self._carry_out(principal, run, asked)
        except (Conflict, NotFound) as refused:
            await self._refusals.record(run_id, asked, principal.actor, refused, under_id=True)
            raise
        if not changed:
            # Already in that state: allowed and recorded, with no further effect.
            await self._written(lambda: self._scripts.decide(run_id, asked, principal.actor))
        answer = await self._store.read(signal_scripts.answer(run_id, asked))
        assert answer is not None
        return answer

    async def require_control(
        self, principal: Principal, campaign_id: CampaignId, phase: str | None, action: Action
    ) -> None:
        """A control of a phase is a signal to its run, and the same rule decides it. Raises
        Forbidden after recording the refusal."""
        if action not in SIGNALS:
            return
        run_id = await self._store.read(campaigns.current_run(principal.scope, campaign_id, phase))
        if run_id is None:
            return
        signal = SIGNALS[action]
        verdict = await self._authorisation.decide(principal, signal, run_id)
        if isinstance(verdict, Denied):
            denied = Forbidden(signal.value, verdict.reason)
            asked = AskedSignal(signal, self._ids.new())
            await self._refusals.record(run_id, asked, principal.actor, denied, under_id=False)
            raise denied

    async def _carry_out(self, principal: Principal, run: RunRecord, asked: AskedSignal) -> bool:
        match asked.signal:
            case Signal.PAUSE | Signal.RESUME | Signal.CANCEL:
                control = Control(
                    CONTROLS[asked.signal], principal.actor, signal=asked, run_id=run.id
                )
                answer = await self._controller.control(
                    principal.scope, run.campaign_id, run.phase, control
                )
                return answer.changed
            case Signal.APPROVE:
                changed = await self._written(lambda: self._scripts.approve(principal, run, asked))
            case Signal.RETRY_STEP:
                changed = await self._written(
                    lambda: self._scripts.retry_step(principal, run, asked)
                )
            case Signal.ADVANCE:
                changed = await self._written(lambda: self._scripts.advance(principal, run, asked))
            case Signal.DECIDE:
                changed = await self._written(
                    lambda: self._scripts.decide_winner(principal, run, asked)
                )
            case other:
                assert_never(other)
        if changed:
            self._hub.wake(run.campaign_id)
            tenant_id = principal.scope.tenant_id
            if asked.signal is Signal.APPROVE:
                await self._engine_notifier.released(tenant_id, run.id)
            else:
                await self._engine_notifier.steered(tenant_id, run.id, asked.signal, asked.step_id)
        return changed

    async def _written(self, script: Callable[[], Transaction[bool]]) -> bool:
        """A signal id identifies one signal."""
        return await tried_again(self._store, script, self._clock, self._limits)


def _check_fields(asked: AskedSignal) -> None:
    if (asked.signal is Signal.RETRY_STEP) != (asked.step_id is not None):
        raise InvalidInput(
            "stepId is required for RETRY_STEP and not allowed for other signals",
            [Problem("stepId", "is required for RETRY_STEP only")],
        )
    for name, given in (("messageId", asked.message_id), ("variant", asked.variant)):
        if (asked.signal is Signal.DECIDE) != (given is not None):
            raise InvalidInput(
                f"{name} is required for DECIDE and not allowed for other signals",
                [Problem(name, "is required for DECIDE only")],
            )
