"""Reconciling a phase and its run after a manual database change: one transaction each.

Rows are locked in the order that a control uses: the campaign's controls, jobs, run, phase.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from outrider.domain import phases as phase_rules
from outrider.domain.ids import CampaignId, RunId, Scope, TenantId, WorkspaceId
from outrider.domain.phase_repairs import (
    CHANGED_IN_DATABASE,
    PhaseFollows,
    RunBeside,
    RunFollows,
    repair,
)
from outrider.domain.phases import Action
from outrider.domain.signals import AskedSignal
from outrider.domain.states import TERMINAL_RUNS, PhaseState, RunStatus
from outrider.kernel.transactions import run_records, settlement
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.phases import (
    append_event,
    lock_phases,
    transition_phase_direct,
)
from outrider.kernel.transactions.steering import (
    SIGNALS,
    hold_run,
    log_steering,
    one_at_a_time,
    steer_jobs,
)
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, ask

CALLER = "phase_restorer"


class UnreadBypass(NamedTuple):
    id: str
    campaign_id: CampaignId
    phase: str
    detail: str


class PhaseKey(NamedTuple):
    campaign_id: CampaignId
    phase: str


class RunLeftRunning(NamedTuple):
    id: RunId
    campaign_id: CampaignId
    phase: str


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was changed to match what. `run_id` is set if an engine has to be notified."""

    scope: Scope
    state: PhaseState
    action: Action | None = None
    run_id: RunId | None = None
    reason: str | None = None


class ChangedMeanwhile(Exception):
    """The rows have changed since they were read: the transaction is rolled back."""


class _FoundPhase(NamedTuple):
    scope: Scope
    state: PhaseState
    run_id: RunId | None
    run: RunBeside | None
    last_event: str | None


def unread_bypasses(after: str, most: int) -> Transaction[list[UnreadBypass]]:
    rows = yield from ask("unread_bypasses_after", after=after, most=most)
    return [UnreadBypass(*row) for row in rows]


def forget_bypasses(bypass_ids: list[str]) -> Transaction[None]:
    yield from ask("forget_bypasses", {"id": bypass_ids})


def disagreeing_phases(after: PhaseKey, most: int) -> Transaction[list[PhaseKey]]:
    rows = yield from ask(
        "disagreeing_phases",
        after_campaign_id=after.campaign_id, after_phase=after.phase, most=most,
    )  # fmt: skip
    return [PhaseKey(*row) for row in rows]


def runs_left_running(after: str, most: int) -> Transaction[list[RunLeftRunning]]:
    rows = yield from ask("runs_left_running", after=after, most=most)
    return [RunLeftRunning(*row) for row in rows]


def reconcile(
    campaign_id: CampaignId, phase: str, ids: IdSource, now: datetime
) -> Transaction[Repaired | None]:
    """Make the phase follow its run or the run its phase; None if nothing had to be done.

    Raises ChangedMeanwhile.
    """
    yield from one_at_a_time(campaign_id)
    seen = yield from _found_phase(campaign_id, phase)
    if seen is None:
        return None
    verdict = repair(seen.state, seen.run)
    if seen.run_id is not None:
        if isinstance(verdict, RunFollows):
            yield from steer_jobs(seen.run_id, verdict.action, now)
        elif isinstance(verdict, PhaseFollows) and verdict.state is not PhaseState.IN_PROGRESS:
            # A run that was ended by hand may have jobs left; no more calls are made for them.
            yield from ask("cancel_jobs", run_id=seen.run_id, now=now)
        yield from run_records.find_locked(seen.run_id)
    yield from lock_phases(campaign_id)
    found = yield from _found_phase(campaign_id, phase)
    if found is None or (found.state, found.run_id) != (seen.state, seen.run_id):
        raise ChangedMeanwhile  # It ended, or was changed manually, which is recorded again.
    match verdict:
        case PhaseFollows(state, reason):
            yield from transition_phase_direct(campaign_id, phase, state, CALLER, reason, now)
            return Repaired(found.scope, state, reason=reason)
        case RunFollows(action) if found.run is not None and not found.run.has_ended:
            yield from _steer(campaign_id, phase, found, action, ids, now)
            return Repaired(found.scope, found.state, action, found.run_id, CHANGED_IN_DATABASE)
        case _:
            published = yield from _publish_state(campaign_id, phase, found, now)
            if not published:
                return None
            return Repaired(found.scope, found.state, reason=CHANGED_IN_DATABASE)


def stop_left_over(left: RunLeftRunning, ids: IdSource, now: datetime) -> Transaction[bool]:
    """Stop a run that no phase refers to any more; raises ChangedMeanwhile."""
    yield from one_at_a_time(left.campaign_id)
    seen = yield from _found_phase(left.campaign_id, left.phase)
    if seen is None or seen.run_id == left.id:
        return False
    yield from steer_jobs(left.id, Action.STOP, now)
    locked = yield from run_records.find_locked(left.id)
    if locked is None or locked.status in TERMINAL_RUNS:
        raise ChangedMeanwhile
    yield from _log(left.campaign_id, left.phase, seen.scope, left.id, Action.STOP, ids, now)
    return True


def _steer(
    campaign_id: CampaignId,
    phase: str,
    found: _FoundPhase,
    action: Action,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    assert found.run_id is not None
    yield from _publish_state(campaign_id, phase, found, now)
    yield from _log(campaign_id, phase, found.scope, found.run_id, action, ids, now)


def _log(
    campaign_id: CampaignId,
    phase: str,
    scope: Scope,
    run_id: RunId,
    action: Action,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    plan_version = yield from hold_run(run_id, phase, action, now)
    assert plan_version is not None
    asked = AskedSignal(SIGNALS[action], ids.new())
    triggers = () if action is Action.STOP else (action.value,)
    yield from log_steering(run_id, plan_version, asked, CALLER, triggers, now)
    detail: dict[str, object] = {
        "phase": phase, "action": action.value, "reason": CHANGED_IN_DATABASE,
    }  # fmt: skip
    entry = AuditEntry(scope, "run.followed_phase", CALLER, campaign_id, run_id, detail=detail)
    yield from record([entry], ids, now)
    if action is not Action.PAUSE:
        yield from settlement.finish_run_if_done(scope, run_id, CALLER, ids, now)


def _publish_state(
    campaign_id: CampaignId, phase: str, found: _FoundPhase, now: datetime
) -> Transaction[bool]:
    """Publish a state that came without its event to the streams; False if they already have it."""
    event = phase_rules.event_of(found.state)
    if event is None or phase_rules.state_after(found.last_event) is found.state:
        return False
    payload = {"repaired": True, "reason": CHANGED_IN_DATABASE, "runId": found.run_id}
    sequence = yield from append_event(campaign_id, event, phase, payload, now)
    yield from ask(
        "end_bypass",
        campaign_id=campaign_id, phase=phase, sequence=sequence, reason=CHANGED_IN_DATABASE,
    )  # fmt: skip
    return True


def _found_phase(campaign_id: CampaignId, phase: str) -> Transaction[_FoundPhase | None]:
    rows: Rows = yield from ask("phase_beside_run", campaign_id=campaign_id, phase=phase)
    if not rows:
        return None
    tenant_id, workspace_id, state, run_id, status, *facts, last_event = rows[0]
    run = RunBeside(RunStatus(status), *map(bool, facts)) if status else None
    scope = Scope(TenantId(tenant_id), WorkspaceId(workspace_id))
    named = RunId(run_id) if run_id else None
    return _FoundPhase(scope, PhaseState(state), named, run, last_event)


def count_bypasses() -> Transaction[int]:
    rows = yield from ask("count_bypasses")
    count: int = rows[0][0]
    return count
