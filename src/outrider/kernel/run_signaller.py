"""The run signaller: APPROVE, PAUSE, RESUME, CANCEL and RETRY_STEP, authorised and on record.

Each signal has exactly one decision in its run's log. The decision changes no status; what the
engine makes of it has events of its own, in the same transaction. A signal sent again under its id
gets the decision it got before.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

import msgspec
import structlog

from outrider.domain.admission import Admitted, Delayed, Queued, Rejected
from outrider.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    OutriderError,
    Problem,
    SignalRefused,
    StoreUnavailable,
)
from outrider.domain.ids import CampaignId, RunId, is_uuid
from outrider.domain.keys import Principal
from outrider.domain.phases import Action
from outrider.domain.run_events import RunEventType
from outrider.domain.signals import AskedSignal, Denied, Signal
from outrider.domain.states import TERMINAL_RUNS, JobStatus, PhaseState, RunStatus
from outrider.kernel.admission_gate import AdmissionGate, later
from outrider.kernel.event_hub import EventHub
from outrider.kernel.herald import Herald
from outrider.kernel.phase_controller import Control, PhaseController
from outrider.kernel.transactions import admission, inspection, run_log
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.inspection import RunRecord
from outrider.kernel.transactions.signals import decision, next_signal
from outrider.ports.authorisation import Authorisation
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store, Transaction, ask
from outrider.settings import Limits

log = structlog.get_logger()

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
        store: Store,
        authorisation: Authorisation,
        controller: PhaseController,
        gate: AdmissionGate,
        hub: EventHub,
        herald: Herald,
        clock: Clock,
        ids: IdSource,
        limits: Limits,
    ) -> None:
        self._store = store
        self._authorisation = authorisation
        self._controller = controller
        self._gate = gate
        self._hub = hub
        self._herald = herald
        self._clock = clock
        self._ids = ids
        self._limits = limits

    async def signal(self, principal: Principal, run_id: RunId, asked: AskedSignal) -> SignalAnswer:
        if (asked.signal is Signal.RETRY_STEP) != (asked.step_id is not None):
            raise InvalidInput(
                "a signal names a step exactly where it is about one",
                [Problem("stepId", "RETRY_STEP needs it, the other signals have none")],
            )
        run = await self._store.read(inspection.run(principal.scope, run_id))
        told = await self._store.read(_told(run_id, asked))
        if told is not None:
            return told
        verdict = await self._authorisation.decide(principal, asked.signal, run_id)
        if isinstance(verdict, Denied):
            denied = Forbidden(asked.signal.value, verdict.reason)
            # Not under its id: that is still free for somebody who may.
            await self._reject(run_id, asked, principal.actor, denied, under_id=False)
            raise denied
        try:
            changed = await self._carry_out(principal, run, asked)
        except (Conflict, NotFound) as refused:
            await self._reject(run_id, asked, principal.actor, refused, under_id=True)
            raise
        if not changed:
            # It is so already: allowed, and on record, and nothing follows from it.
            await self._written(lambda: self._decide(run_id, asked, principal.actor, changed=False))
        answer = await self._store.read(_told(run_id, asked))
        assert answer is not None
        return answer

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
                await self._herald.let_go(tenant_id, run.id)
            else:
                await self._herald.steered(tenant_id, run.id, asked.signal, asked.step_id)
        return changed

    async def _written(self, script: Callable[[], Transaction[bool]]) -> bool:
        """Tried again where the store was gone: under its id a signal is one signal."""
        for attempt in range(1, self._limits.control_attempts + 1):
            try:
                return await self._store.write(script())
            except StoreUnavailable:
                if attempt == self._limits.control_attempts:
                    raise
                await self._clock.sleep(self._limits.control_backoff_seconds)
        raise AssertionError

    async def _reject(
        self,
        run_id: RunId,
        asked: AskedSignal,
        actor: str,
        refused: OutriderError,
        *,
        under_id: bool,
    ) -> None:
        """On record, as long as nobody fills a run's log with what they may not do."""
        reason = refused.message
        log.warning("signal_rejected", run_id=run_id, signal=asked.signal.value, reason=reason)
        await self._written(
            lambda: self._decide(
                run_id, asked, actor, denied=reason, under_id=under_id, code=refused.code
            )
        )

    def _decide(
        self,
        run_id: RunId,
        asked: AskedSignal,
        actor: str,
        *,
        denied: str | None = None,
        under_id: bool = True,
        **more: object,
    ) -> Transaction[bool]:
        *_, plan_version, _ = (yield from ask("lock_run", run_id=run_id))[0]
        told = yield from ask("signal_of_run", run_id=run_id, signal_id=asked.signal_id)
        if told and under_id:
            return False
        number = yield from next_signal(run_id)
        if denied is not None and number > self._limits.signals_recorded:
            return False
        draft = decision(asked, number, actor, denied=denied, **more)
        if not under_id:
            draft = replace(draft, signal_id=None)
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
        """A step that failed, or waits, begins a new logical attempt at once.

        Not one that has ended and has items: they are on record, and stay so.
        """
        yield from ask("serialise_controls", campaign_id=run.campaign_id)
        if (yield from ask("signal_of_run", run_id=run.id, signal_id=asked.signal_id)):
            return True
        step_id = asked.step_id or ""
        steps = (
            (yield from ask("lock_step", run_id=run.id, job_id=step_id)) if is_uuid(step_id) else []
        )
        if not steps:
            raise NotFound(
                f"run {run.id} has no step {step_id}",
                hint=f"`outrider run snapshot {run.id}` lists its steps",
            )
        status, has_items, cancelled, fence, has_ended = steps[0]
        run_status, _, _, stopped_at, plan_version, _ = (yield from ask("lock_run", run_id=run.id))[
            0
        ]
        if stopped_at is not None or cancelled or RunStatus(run_status) in TERMINAL_RUNS:
            raise SignalRefused(
                asked.signal.value,
                "run_ended",
                "the run has ended or was stopped",
                hint="retry its phase: that takes up what did not succeed",
            )
        if not fence:
            raise SignalRefused(
                asked.signal.value,
                "step_not_begun",
                "nobody has begun this step yet",
                hint="it begins when its run is let go and its time has come",
            )
        if status == JobStatus.LOCKED:
            raise SignalRefused(
                asked.signal.value, "step_running", "a worker is at this step already"
            )
        if has_ended and has_items:
            raise SignalRefused(
                asked.signal.value,
                "step_ended",
                "the step has ended, and its items are on record",
                hint="retry its phase once the run has ended: that takes up what failed",
            )
        now = self._clock.now()
        number = yield from next_signal(run.id)
        state, _ = (yield from ask("lock_phase", campaign_id=run.campaign_id, phase=run.phase))[0]
        rows = yield from ask(
            "retry_step",
            job_id=step_id,
            max_attempts=self._limits.job_max_attempts,
            paused=state == PhaseState.PAUSED,
            now=now,
        )
        yield from ask("hasten_items", run_id=run.id, job_id=step_id, now=now)
        draft = decision(asked, number, principal.actor, logicalAttemptId=str(rows[0][0]))
        yield from run_log.append(run.id, plan_version, [draft], now)
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


def _told(run_id: RunId, asked: AskedSignal) -> Transaction[SignalAnswer | None]:
    """The decision that this signal got; a rejection is raised again, as it was."""
    rows = yield from ask("signal_of_run", run_id=run_id, signal_id=asked.signal_id)
    if not rows:
        return None
    run_seq, kind, payload, step_id = rows[0]
    told = msgspec.json.decode(payload)
    if (told["signal"], step_id) != (asked.signal.value, asked.step_id):
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
