"""Signals to runs: each is decided, carried out and recorded in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

import msgspec

from outrider.domain.admission import Admitted, Delayed, NotAdmitted, Queued
from outrider.domain.errors import (
    Conflict,
    NotFound,
    SignalRefused,
)
from outrider.domain.ids import CampaignId, JobId, RunId, is_uuid
from outrider.domain.keys import Principal
from outrider.domain.rollouts import StepProgress
from outrider.domain.run_events import SIGNAL_STEP, RunEventType
from outrider.domain.signals import AskedSignal
from outrider.domain.states import TERMINAL_RUNS, JobOutcome, JobStatus, PhaseState, RunStatus
from outrider.domain.variants import ChosenWinner, VariantFigures
from outrider.kernel.transactions import (
    admission,
    alerts,
    phases,
    rollouts,
    run_log,
    run_records,
    signals,
    step_retries,
    variants,
)
from outrider.kernel.transactions.admission_gate import AdmissionGate, later
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.phases import lock_phase
from outrider.kernel.transactions.run_records import RunRecord
from outrider.kernel.transactions.signals import decision, next_signal
from outrider.kernel.transactions.steering import one_at_a_time
from outrider.kernel.transactions.step_retries import StepState
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Transaction


@dataclass(frozen=True, slots=True)
class SignalAnswer:
    """`changed`: the state was different before. `run_seq` is the decision's sequence in the
    log."""

    run_id: RunId
    asked: AskedSignal
    run_seq: int
    changed: bool


class SignalScripts:
    def __init__(self, gate: AdmissionGate, clock: Clock, ids: IdSource, limits: Limits) -> None:
        self._gate = gate
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def decide(self, run_id: RunId, asked: AskedSignal, actor: str) -> Transaction[bool]:
        run = yield from run_records.lock(run_id)
        if (yield from signals.decided(run_id, asked.signal_id)) is not None:
            return False
        number = yield from next_signal(run_id)
        draft = decision(asked, number, actor, changed=False)
        yield from run_log.append(run_id, run.plan_version, [draft], self._clock.now())
        return True

    def approve(
        self, principal: Principal, run: RunRecord, asked: AskedSignal
    ) -> Transaction[bool]:
        """Start the run or, without capacity, let it wait for that alone."""
        yield from one_at_a_time(run.campaign_id)
        if (yield from signals.decided(run.id, asked.signal_id)) is not None:
            return True
        locked = yield from run_records.lock(run.id)
        if locked.stopped_at is not None or RunStatus(locked.status) in TERMINAL_RUNS:
            raise SignalRefused(asked.signal.value, "run_ended", "the run has ended or was stopped")
        if locked.approved_at is not None or not (yield from admission.waits_for_approval(run.id)):
            return False
        now = self._clock.now()
        number = yield from next_signal(run.id)
        draft = decision(asked, number, principal.actor)
        yield from self._audit(principal, run, asked, now)
        verdict = yield from self._gate.newcomer(principal.scope)
        match verdict:
            case Admitted() | Delayed():
                not_before = later(verdict, now)
                yield from admission.release(
                    run.id, locked.plan_version, principal.actor, not_before, [draft], now
                )
            case Queued() | NotAdmitted():
                yield from run_log.append(run.id, locked.plan_version, [draft], now)
                yield from admission.note_approval(run.id, principal.actor, now)
            case other:
                assert_never(other)
        return True

    def retry_step(
        self, principal: Principal, run: RunRecord, asked: AskedSignal
    ) -> Transaction[bool]:
        """A failed or waiting step begins a new logical attempt at once, with those of its items
        that failed, under their existing keys."""
        yield from one_at_a_time(run.campaign_id)
        if (yield from signals.decided(run.id, asked.signal_id)) is not None:
            return True
        step_id = JobId(asked.step_id or "")
        step = (yield from step_retries.lock(run.id, step_id)) if is_uuid(step_id) else None
        if step is None:
            raise NotFound(
                f"run {run.id} has no step {step_id}",
                hint=f"`outrider run snapshot {run.id}` lists its jobs",
            )
        locked = yield from run_records.lock(run.id)
        has_ended = locked.stopped_at is not None or RunStatus(locked.status) in TERMINAL_RUNS
        _check_retry(asked.signal.value, step, run_has_ended=has_ended)
        now = self._clock.now()
        number = yield from next_signal(run.id)
        state, _ = yield from lock_phase(run.campaign_id, run.phase)
        begun = yield from step_retries.restart(
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
                "none of the job's items can be sent again",
                hint="an item that cannot be rendered needs another version of its message",
            )
        yield from step_retries.hasten(run.id, step_id, now)
        draft = decision(
            asked, number, principal.actor, logicalAttemptId=str(begun.number), items=begun.items,
        )  # fmt: skip
        yield from run_log.append(run.id, locked.plan_version, [draft], now)
        if not (yield from step_retries.any_dead(run.id)):
            yield from alerts.resolve_alert(AlertCode.JOB_DEAD, run.id, now)
        yield from self._audit(principal, run, asked, now)
        return True

    def advance(
        self, principal: Principal, run: RunRecord, asked: AskedSignal
    ) -> Transaction[bool]:
        """Release the next step of the run's rollout, whatever its hold and its rates. False: its
        last step was released before."""
        yield from one_at_a_time(run.campaign_id)
        if (yield from signals.decided(run.id, asked.signal_id)) is not None:
            return True
        steps = yield from rollouts.of_run(run.id)
        phase = yield from phases.controlled_phase(run.campaign_id, run.phase)
        is_current = phase.run_id == run.id
        _check_advance(asked.signal.value, steps, phase.state if is_current else None)
        if phase.waits_for is not None:
            raise SignalRefused(
                asked.signal.value, "run_not_released", "the run has not been released yet"
            )
        at = max(step.step for step in steps if step.released_at is not None)
        if at == len(steps):
            return False
        if at + 1 == (yield from rollouts.waiting_step(run.id)):
            raise SignalRefused(
                asked.signal.value,
                "awaiting_winner",
                "the next step is sent the variant that wins, and none has been chosen yet",
                hint="choose one with DECIDE (`outrider campaign decide`)",
            )
        now = self._clock.now()
        number = yield from next_signal(run.id)
        draft = decision(asked, number, principal.actor, rolloutStep=at + 1)
        yield from rollouts.release_next(run.id, at, principal.actor, now, [draft])
        yield from self._audit(principal, run, asked, now)
        return True

    def decide_winner(
        self, principal: Principal, run: RunRecord, asked: AskedSignal
    ) -> Transaction[bool]:
        """Choose the variant of a message that the last step is sent; the keeper then releases that
        step when its turn comes. False: it was chosen before."""
        yield from one_at_a_time(run.campaign_id)
        if (yield from signals.decided(run.id, asked.signal_id)) is not None:
            return True
        campaign_id = CampaignId(run.campaign_id)
        figures = yield from variants.figures_of(campaign_id, run.id)
        winners = {each.message_id: each for each in (yield from variants.winners_of(run.id))}
        waiting = (yield from variants.undecided([run.id])).get(run.id, [])
        before = winners.get(asked.message_id or "")
        if before is not None and before.variant == asked.variant:
            return False
        chosen = _chosen(asked, figures, before, waiting)
        phase = yield from phases.controlled_phase(run.campaign_id, run.phase)
        if phase.run_id != run.id or phase.state not in (
            PhaseState.IN_PROGRESS,
            PhaseState.PAUSED,
        ):
            raise SignalRefused(asked.signal.value, "run_ended", "the run has ended or was stopped")
        now = self._clock.now()
        number = yield from next_signal(run.id)
        draft = decision(asked, number, principal.actor)
        yield from variants.choose(run.id, chosen, principal.actor, figures, now, [draft])
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


def _chosen(
    asked: AskedSignal,
    figures: Sequence[VariantFigures],
    before: ChosenWinner | None,
    waiting: Sequence[str],
) -> VariantFigures:
    signal, of_message = (
        asked.signal.value,
        [f for f in figures if f.message_id == asked.message_id],
    )
    if not of_message:
        raise SignalRefused(
            signal, "no_variants", f"the message '{asked.message_id}' has no variants",
            hint=f"those that do: {', '.join(sorted({f.message_id for f in figures})) or 'none'}",
        )  # fmt: skip
    chosen = next((each for each in of_message if each.variant == asked.variant), None)
    if chosen is None:
        raise SignalRefused(
            signal, "no_such_variant",
            f"the message '{asked.message_id}' has no variant '{asked.variant}'",
            hint=f"its variants are {', '.join(each.variant for each in of_message)}",
        )  # fmt: skip
    if before is not None:
        raise SignalRefused(
            signal, "winner_chosen",
            f"{before.decided_by} has chosen '{before.variant}' already, and a choice is final",
        )  # fmt: skip
    if asked.message_id not in waiting:
        raise SignalRefused(
            signal, "no_winner_awaited", f"nothing of '{asked.message_id}' waits for a winner",
            hint="a campaign's `winner` makes the last step of its rollout wait for one",
        )  # fmt: skip
    return chosen


def _check_advance(signal: str, steps: Sequence[StepProgress], state: str | None) -> None:
    if not steps:
        raise SignalRefused(
            signal,
            "no_rollout",
            "the run has no rollout, and is sent to everybody at once",
            hint="a campaign's `rollout` divides its launch into steps",
        )
    if state == PhaseState.PAUSED:
        raise SignalRefused(
            signal, "run_paused", "the run is paused",
            hint="resume it: a rollout that paused itself then goes on with its next step",
        )  # fmt: skip
    if state != PhaseState.IN_PROGRESS:
        raise SignalRefused(signal, "run_ended", "the run has ended or was stopped")


def _check_retry(signal: str, step: StepState, *, run_has_ended: bool) -> None:
    if run_has_ended or step.cancelled:
        raise SignalRefused(
            signal,
            "run_ended",
            "the run has ended or was stopped",
            hint="retry its phase: the new run covers what did not succeed",
        )
    if not step.fence:
        raise SignalRefused(
            signal,
            "step_not_begun",
            "this job has not started yet",
            hint="it starts once its run is approved and its start time has come",
        )
    if step.status == JobStatus.LOCKED:
        raise SignalRefused(signal, "step_running", "a worker is already processing this job")
    if step.outcome == JobOutcome.COMPLETED:
        raise SignalRefused(signal, "step_succeeded", "nothing in this job has failed")


def answer(run_id: RunId, asked: AskedSignal) -> Transaction[SignalAnswer | None]:
    """The decision on this signal; a rejection is raised again, unchanged."""
    found = yield from signals.decided(run_id, asked.signal_id)
    if found is None:
        return None
    run_seq, kind, payload, about = found
    recorded = msgspec.json.decode(payload)
    # An older log has the step itself where a signal has its own identity now.
    older = None if (about or "").startswith(SIGNAL_STEP) else about
    same = (asked.signal.value, asked.step_id, asked.message_id, asked.variant)
    if (
        recorded["signal"],
        recorded.get("stepId", older),
        recorded.get("messageId"),
        recorded.get("variant"),
    ) != same:
        raise Conflict(
            f"the signal {asked.signal_id} was already used for a different signal:"
            f" {recorded['signal']}",
            hint="give every signal a unique id",
        )
    if kind == RunEventType.SIGNAL_REJECTED:
        if recorded["code"] == NotFound.code:
            raise NotFound(recorded["reason"])
        refused = SignalRefused(asked.signal.value, "rejected_before", recorded["reason"])
        refused.code = recorded["code"]
        raise refused
    return SignalAnswer(run_id, asked, run_seq, recorded.get("changed", True))
