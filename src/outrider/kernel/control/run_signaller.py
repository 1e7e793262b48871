"""The run signaller: APPROVE, PAUSE, RESUME, CANCEL and RETRY_STEP, authorised and on record.

Each signal has exactly one decision in its run's log. The decision changes no status; what the
engine makes of it has events of its own, in the same transaction. A signal sent again under its id
gets the decision it got before.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

import msgspec

from outrider.domain.admission import Admitted, Delayed, Queued, Rejected
from outrider.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Problem,
    SignalRefused,
)
from outrider.domain.ids import CampaignId, JobId, RunId, is_uuid
from outrider.domain.keys import Principal
from outrider.domain.phases import Action
from outrider.domain.run_events import SIGNAL_STEP, RunEventType
from outrider.domain.signals import AskedSignal, Denied, Signal
from outrider.domain.states import TERMINAL_RUNS, JobOutcome, JobStatus, PhaseState, RunStatus
from outrider.kernel.control.admission_gate import AdmissionGate, later
from outrider.kernel.control.phase_controller import PhaseController
from outrider.kernel.control.phase_controls import Control
from outrider.kernel.control.refusal_recorder import RefusalRecorder, current_run
from outrider.kernel.control.tried_again import tried_again
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import admission, alerts, inspection, run_log, step_retries
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.inspection import RunRecord
from outrider.kernel.transactions.signals import decision, next_signal
from outrider.kernel.transactions.steering import SIGNALS
from outrider.kernel.transactions.step_retries import StepState
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.ports.authorisation import Authorisation
from outrider.ports.store import Transaction, ask

CONTROLS = {
    Signal.PAUSE: Action.PAUSE,
    Signal.RESUME: Action.RESUME,
    Signal.CANCEL: Action.STOP,
}


@dataclass(frozen=True, slots=True)
class SignalAnswer:
    """`changed`: it was not so already. `run_seq` is the decision's place in the log."""

    run_id: RunId
    asked: AskedSignal
    run_seq: int
    changed: bool


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
        self._gate = gate
        self._hub = hub
        self._engine_notifier = engine_notifier
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def signal(self, principal: Principal, run_id: RunId, asked: AskedSignal) -> SignalAnswer:
        run = await self._store.read(inspection.run(principal.scope, run_id))
        told = await self._store.read(_told(run_id, asked))
        if told is not None:
            return told
        verdict = await self._authorisation.decide(principal, asked.signal, run_id)
        if isinstance(verdict, Denied):
            denied = Forbidden(asked.signal.value, verdict.reason)
            # Not under its id: that is still free for somebody who may.
            await self._refusals.record(run_id, asked, principal.actor, denied, under_id=False)
            raise denied
        if (asked.signal is Signal.RETRY_STEP) != (asked.step_id is not None):
            raise InvalidInput(
                "a signal names a step exactly where it is about one",
                [Problem("stepId", "RETRY_STEP needs it, the other signals have none")],
            )
        try:
            changed = await self._carry_out(principal, run, asked)
        except (Conflict, NotFound) as refused:
            await self._refusals.record(run_id, asked, principal.actor, refused, under_id=True)
            raise
        if not changed:
            # It is so already: allowed, and on record, and nothing follows from it.
            await self._written(lambda: self._decide(run_id, asked, principal.actor))
        answer = await self._store.read(_told(run_id, asked))
        assert answer is not None
        return answer

    async def require_control(
        self, principal: Principal, campaign_id: CampaignId, phase: str | None, action: Action
    ) -> None:
        """A control of a phase is a signal to its run, and the same rule decides on it. Forbidden:
        it is on record."""
        if action not in SIGNALS:
            return
        run_id = await self._store.read(current_run(principal.scope, campaign_id, phase))
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
                changed = await self._written(lambda: self._approve(principal, run, asked))
            case Signal.RETRY_STEP:
                changed = await self._written(lambda: self._retry_step(principal, run, asked))
            case other:
                assert_never(other)
        if changed:
            self._hub.wake(run.campaign_id)
            tenant_id = principal.scope.tenant_id
            if asked.signal is Signal.APPROVE:
                await self._engine_notifier.let_go(tenant_id, run.id)
            else:
                await self._engine_notifier.steered(tenant_id, run.id, asked.signal, asked.step_id)
        return changed

    async def _written(self, script: Callable[[], Transaction[bool]]) -> bool:
        """Under its id a signal is one signal."""
        return await tried_again(self._store, script, self._clock, self._limits)

    def _decide(self, run_id: RunId, asked: AskedSignal, actor: str) -> Transaction[bool]:
        *_, plan_version, _ = (yield from ask("lock_run", run_id=run_id))[0]
        if (yield from ask("signal_of_run", run_id=run_id, signal_id=asked.signal_id)):
            return False
        number = yield from next_signal(run_id)
        draft = decision(asked, number, actor, changed=False)
        yield from run_log.append(run_id, plan_version, [draft], self._clock.now())
        return True

    def _approve(
        self, principal: Principal, run: RunRecord, asked: AskedSignal
    ) -> Transaction[bool]:
        """Let the run go, or, where there is no room, let it wait for that alone."""
        yield from ask("serialise_controls", campaign_id=run.campaign_id)
        if (yield from ask("signal_of_run", run_id=run.id, signal_id=asked.signal_id)):
            return True
        status, _, _, stopped_at, plan_version, approved_at = (
            yield from ask("lock_run", run_id=run.id)
        )[0]
        if stopped_at is not None or RunStatus(status) in TERMINAL_RUNS:
            raise SignalRefused(asked.signal.value, "run_ended", "the run has ended or was stopped")
        if approved_at is not None or not (yield from admission.waits_for_approval(run.id)):
            return False
        now = self._clock.now()
        number = yield from next_signal(run.id)
        draft = decision(asked, number, principal.actor)
        yield from self._audit(principal, run, asked, now)
        verdict = yield from self._gate.newcomer(principal.scope)
        match verdict:
            case Admitted() | Delayed():
                not_before = later(verdict, now)
                yield from admission.let_go(
                    run.id, plan_version, principal.actor, not_before, [draft], now
                )
            case Queued() | Rejected():
                yield from run_log.append(run.id, plan_version, [draft], now)
                yield from admission.note_approval(run.id, principal.actor, now)
            case other:
                assert_never(other)
        return True

    def _retry_step(
        self, principal: Principal, run: RunRecord, asked: AskedSignal
    ) -> Transaction[bool]:
        """A step that failed, or waits, begins a new logical attempt at once, and with it those of
        its items that failed, under the keys they have."""
        yield from ask("serialise_controls", campaign_id=run.campaign_id)
        if (yield from ask("signal_of_run", run_id=run.id, signal_id=asked.signal_id)):
            return True
        step_id = JobId(asked.step_id or "")
        step = (yield from step_retries.lock(run.id, step_id)) if is_uuid(step_id) else None
        if step is None:
            raise NotFound(
                f"run {run.id} has no step {step_id}",
                hint=f"`outrider run snapshot {run.id}` lists its steps",
            )
        run_status, _, _, stopped_at, plan_version, _ = (yield from ask("lock_run", run_id=run.id))[
            0
        ]
        has_ended = stopped_at is not None or RunStatus(run_status) in TERMINAL_RUNS
        _check_retry(asked.signal.value, step, run_has_ended=has_ended)
        now = self._clock.now()
        number = yield from next_signal(run.id)
        state, _ = (yield from ask("lock_phase", campaign_id=run.campaign_id, phase=run.phase))[0]
        begun = yield from step_retries.begin_anew(
            run.id,
            step_id,
            step.contract_id,
            self._limits.job_max_attempts,
            now,
            now,
            paused=state == PhaseState.PAUSED,
        )
        if step.outcome is not None and step.contract_id is not None and not begun.items:
            raise SignalRefused(
                asked.signal.value,
                "nothing_to_retry",
                "none of the step's items can be sent again",
                hint="what cannot be rendered needs another version of its message",
            )
        yield from step_retries.hasten(run.id, step_id, now)
        draft = decision(
            asked, number, principal.actor, logicalAttemptId=str(begun.number), items=begun.items,
        )  # fmt: skip
        yield from run_log.append(run.id, plan_version, [draft], now)
        if not (yield from step_retries.any_dead(run.id)):
            yield from alerts.resolve_alert(AlertCode.JOB_DEAD, run.id, now)
        yield from self._audit(principal, run, asked, now)
        return True

    def _audit(
        self, principal: Principal, run: RunRecord, asked: AskedSignal, now: datetime
    ) -> Transaction[None]:
        entry = AuditEntry(
            principal.scope, "run.signalled", principal.actor, CampaignId(run.campaign_id), run.id,
            asked.step_id, detail={"signal": asked.signal.value},
        )  # fmt: skip
        yield from record([entry], self._ids, now)


def _check_retry(signal: str, step: StepState, *, run_has_ended: bool) -> None:
    if run_has_ended or step.cancelled:
        raise SignalRefused(
            signal,
            "run_ended",
            "the run has ended or was stopped",
            hint="retry its phase: that takes up what did not succeed",
        )
    if not step.fence:
        raise SignalRefused(
            signal,
            "step_not_begun",
            "nobody has begun this step yet",
            hint="it begins when its run is let go and its time has come",
        )
    if step.status == JobStatus.LOCKED:
        raise SignalRefused(signal, "step_running", "a worker is at this step already")
    if step.outcome == JobOutcome.COMPLETED:
        raise SignalRefused(signal, "step_succeeded", "nothing of this step has failed")


def _told(run_id: RunId, asked: AskedSignal) -> Transaction[SignalAnswer | None]:
    """The decision that this signal got; a rejection is raised again, as it was."""
    rows = yield from ask("signal_of_run", run_id=run_id, signal_id=asked.signal_id)
    if not rows:
        return None
    run_seq, kind, payload, about = rows[0]
    told = msgspec.json.decode(payload)
    # An older log has the step itself where a signal has its own identity now.
    older = None if (about or "").startswith(SIGNAL_STEP) else about
    if (told["signal"], told.get("stepId", older)) != (asked.signal.value, asked.step_id):
        raise Conflict(
            f"the signal {asked.signal_id} was another one before: {told['signal']}",
            hint="give every signal an id of its own",
        )
    if kind == RunEventType.SIGNAL_REJECTED:
        if told["code"] == NotFound.code:
            raise NotFound(told["reason"])
        refused = SignalRefused(asked.signal.value, "rejected_before", told["reason"])
        refused.code = told["code"]
        raise refused
    return SignalAnswer(run_id, asked, run_seq, told.get("changed", True))
