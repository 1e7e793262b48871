"""Steering a run: applies a pause, resume or stop of its phase to its jobs and its log.

The jobs are updated first, then the run is locked, then the phase: every script locks in this
order.
"""

from collections.abc import Sequence
from datetime import datetime

from outrider.domain.errors import PreconditionFailed
from outrider.domain.ids import CampaignId, RunId
from outrider.domain.phases import STOPPED, Action
from outrider.domain.run_events import RunEventType, signal_step
from outrider.domain.signals import AskedSignal, Signal
from outrider.domain.states import PhaseState
from outrider.kernel.transactions import admission, run_log, run_records
from outrider.kernel.transactions.run_log import EventDraft
from outrider.kernel.transactions.run_requests import RequestStatus
from outrider.kernel.transactions.signals import decision, next_signal
from outrider.ports.store import Transaction, ask

SIGNALS = {
    Action.PAUSE: Signal.PAUSE,
    Action.RESUME: Signal.RESUME,
    Action.STOP: Signal.CANCEL,
}
"""A control of a phase is a signal to its run."""

RUN_EVENTS = {"pause": RunEventType.RUN_PAUSED, "resume": RunEventType.RUN_RESUMED}


def one_at_a_time(campaign_id: CampaignId) -> Transaction[None]:
    """Controls of a campaign are serialised from here to the commit."""
    yield from ask("serialise_controls", campaign_id=campaign_id)


def steer_jobs(run_id: RunId, action: Action, now: datetime) -> Transaction[None]:
    match action:
        case Action.PAUSE:
            yield from ask("pause_jobs", run_id=run_id, now=now)
        case Action.RESUME:
            yield from ask("resume_jobs", run_id=run_id, now=now)
        case Action.STOP:
            yield from ask("cancel_jobs", run_id=run_id, now=now)
            yield from ask("stop_run", run_id=run_id, now=now)
        case _:
            raise AssertionError(action)


def hold_run(run_id: RunId, phase: str, action: Action, now: datetime) -> Transaction[str | None]:
    """Lock the run, after its jobs and before its phase; returns the version of its plan."""
    run = yield from run_records.find_locked(run_id)
    if run is None:
        # The restorer repairs its phase.
        return None
    if run.approved_at is None and action is Action.PAUSE:
        state = PhaseState.IN_PROGRESS.value
        raise PreconditionFailed(action.value, "run_not_released", phase, state)
    if action is Action.STOP:
        yield from admission.end_request(run_id, RequestStatus.SKIPPED, STOPPED, now)
    return run.plan_version


def hold_runs(
    run_ids: Sequence[RunId], phase: str, action: Action, now: datetime
) -> Transaction[dict[RunId, str]]:
    """Update the jobs of all of them, then lock them; returns the version of each one's plan."""
    versions = {}
    for run_id in run_ids:
        yield from steer_jobs(run_id, action, now)
    for run_id in run_ids:
        version = yield from hold_run(run_id, phase, action, now)
        if version is not None:
            versions[run_id] = version
    return versions


def log_steering(
    run_id: RunId,
    plan_version: str,
    asked: AskedSignal,
    actor: str,
    triggers: tuple[str, ...],
    now: datetime,
    reason: str | None = None,
) -> Transaction[None]:
    """Who steered the run, and what the engine did; `reason`: why it paused itself."""
    number = yield from next_signal(run_id)
    drafts = [decision(asked, number, actor)]
    drafts += [
        EventDraft(
            RUN_EVENTS[trigger], signal_step(number), payload={"reason": reason} if reason else {}
        )
        for trigger in triggers
        if trigger in RUN_EVENTS
    ]
    yield from run_log.append(run_id, plan_version, drafts, now)
