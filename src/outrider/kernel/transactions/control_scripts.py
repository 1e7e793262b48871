"""Controls of phases: each is one transaction, and changes nothing if already applied."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import NotFound, PreconditionFailed
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.phases import (
    PUT_BACK,
    STOPPED,
    Action,
    check_free_to_begin,
    control_phase,
    decide,
)
from outrider.domain.run_requests import plan_version as plan_version_of
from outrider.domain.signals import AskedSignal
from outrider.domain.states import TERMINAL_RUNS, PhaseState, RunStatus
from outrider.kernel.transactions import (
    accountings,
    alerts,
    audience,
    campaigns,
    intakes,
    phases,
    retirement,
    run_records,
    run_requests,
    settlement,
    signals,
)
from outrider.kernel.transactions.admission_gate import AdmissionGate
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.audience_counts import CountedAudience
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.campaigns import CampaignRecord
from outrider.kernel.transactions.deployment import RunStart, deploy_phase
from outrider.kernel.transactions.phase_controls import (
    Control,
    ControlAnswer,
    RerunScope,
)
from outrider.kernel.transactions.phases import LockedPhase, lock_phases, transition_phase
from outrider.kernel.transactions.run_requests import HeldFor, RunRequest
from outrider.kernel.transactions.steering import (
    SIGNALS,
    hold_runs,
    log_steering,
    one_at_a_time,
)
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.phases import PhaseJobPlan
from outrider.ports.store import Transaction

CALLER = "phase_controller"
BEGINNINGS = frozenset({Action.START, Action.RERUN, Action.RETRY})


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """The jobs of a planned run, and how much was uploaded when they were planned."""

    jobs: list[PhaseJobPlan]
    uploaded: int


class PlanOutdated(Exception):
    """A run is about to begin without a plan, or more was uploaded since it was planned."""


class ControlScripts:
    """`launch` writes the run of a launch and its jobs, and returns how many items it intends."""

    def __init__(
        self,
        launch: Callable[[RunStart], Transaction[int]],
        admission: AdmissionGate,
        clock: Clock,
        ids: IdSource,
        limits: Limits,
    ) -> None:
        self._launch = launch
        self._admission = admission
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def read_phases(
        self, scope: Scope, campaign_id: CampaignId, phase: str
    ) -> Transaction[dict[str, LockedPhase]]:
        yield from campaigns.campaign(scope, campaign_id)
        return (yield from self._read_phases(campaign_id, phase))

    def _read_phases(
        self, campaign_id: CampaignId, phase: str
    ) -> Transaction[dict[str, LockedPhase]]:
        found = {
            each.phase: LockedPhase(
                each.phase,
                each.state,
                RunId(each.run_id) if each.run_id else None,
                each.last_sequence,
            )
            for each in (yield from campaigns.phases_of(campaign_id))
        }
        _require(phase, found)
        return found

    def control(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        phase: str,
        control: Control,
        run_id: RunId,
        plan: PhasePlan | CountedAudience | None,
    ) -> Transaction[ControlAnswer]:
        stored = yield from campaigns.campaign(scope, campaign_id)
        yield from one_at_a_time(campaign_id)
        if control.action in BEGINNINGS and (yield from run_records.find_anywhere(run_id)):
            # This very control was committed, and the answer was lost.
            return (yield from self._answer(campaign_id, phase))
        if control.action in BEGINNINGS and control.request_id is not None:
            version = plan_version_of(stored.definition)
            request = RunRequest(scope, campaign_id, phase, version, control.request_id)
            earlier = yield from run_requests.run_of(request)
            if earlier is not None:
                answer = yield from self._answer(campaign_id, phase, changed=False)
                return replace(answer, run_id=earlier)
        if control.signal is not None and control.run_id is not None:
            decided_before = yield from signals.decided(control.run_id, control.signal.signal_id)
            if decided_before is not None:
                return (yield from self._answer(campaign_id, phase, changed=False))
        # Read before locking: jobs are locked before their phase, here as in settling.
        before = _require(phase, (yield from self._read_phases(campaign_id, phase)))
        if control.run_id is not None and control.run_id != before.run_id:
            raise PreconditionFailed(control.action.value, "run_not_current", phase)
        runs = [before.run_id] if before.run_id is not None else []
        going: list[RunId] = []
        if control.action is Action.STOP:
            running = yield from phases.running_runs(campaign_id)
            going = [run for run, of_phase in running.items() if of_phase == phase]
            runs += [run for run in going if run not in runs]
        decided = partial(decide, action=control.action, expected=control.expected)
        triggers = decided(PhaseState(before.state), run_goes_on=bool(going))
        versions: dict[RunId, str] = {}
        if triggers and control.action not in BEGINNINGS:
            versions = yield from hold_runs(runs, phase, control.action, self._clock.now())
        locked = yield from lock_phases(campaign_id)
        found = _require(phase, locked)
        state = PhaseState(found.state)
        if state != before.state:
            # It completed or failed just now, while the jobs were being updated; read it again.
            triggers = decided(state)
        if not triggers:
            return (yield from self._answer(campaign_id, phase, changed=False))
        if control.action in BEGINNINGS:
            check_free_to_begin(phase, control.action, states_of(locked))
            yield from intakes.refuse_starts(campaign_id)
            yield from retirement.refuse_starts(campaign_id)
            yield from self._begin(scope, stored, found, control, run_id, plan)
        else:
            yield from self._steer(scope, campaign_id, found, triggers, control, versions)
        return (yield from self._answer(campaign_id, phase))

    def _steer(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        found: LockedPhase,
        triggers: tuple[str, ...],
        control: Control,
        versions: Mapping[RunId, str],
    ) -> Transaction[None]:
        now = self._clock.now()
        for run_id, version in versions.items():
            asked = control.signal or AskedSignal(SIGNALS[control.action], self._ids.new())
            yield from log_steering(
                run_id, version, asked, control.actor, triggers, now, control.reason
            )
        for trigger in triggers:
            reason = STOPPED if trigger == "fail" else control.reason
            if trigger == PUT_BACK:
                yield from phases.put_back(campaign_id, found.phase, CALLER, now)
                continue
            payload: dict[str, object] = {"runId": found.run_id}
            yield from transition_phase(
                campaign_id, found.phase, trigger, now, reason=reason, payload=payload
            )
        detail: dict[str, object] = {"phase": found.phase, "action": control.action.value}
        if control.reason is not None:
            detail["reason"] = control.reason
        entry = AuditEntry(
            scope, "phase.controlled", control.actor, campaign_id, found.run_id, detail=detail
        )
        yield from record([entry], self._ids, now)
        if control.action is not Action.PAUSE:
            for run_id in versions:
                # The last job may have ended while the phase was paused.
                yield from settlement.finish_run_if_done(
                    scope, run_id, control.actor, self._ids, now
                )

    def _begin(
        self,
        scope: Scope,
        stored: CampaignRecord,
        found: LockedPhase,
        control: Control,
        run_id: RunId,
        plan: PhasePlan | CountedAudience | None,
    ) -> Transaction[None]:
        trigger, actor = control.action.value, control.actor
        if found.run_id is not None:
            now = self._clock.now()
            yield from alerts.resolve_alert(AlertCode.JOB_DEAD, found.run_id, now)
        run_start = RunStart(
            scope,
            stored.id,
            found.phase,
            run_id,
            trigger,
            actor,
            request_id=control.request_id,
            definition=stored.definition,
        )
        if found.phase == LAUNCH:
            retry_of = yield from self._remainder_of(scope, found, control)
            counted = plan if isinstance(plan, CountedAudience) else None
            run_start = replace(run_start, retry_of=retry_of, counted=counted)
            if campaigns.read_definition(stored.definition).require_approval:
                run_start = replace(run_start, held=HeldFor.APPROVAL)
            else:
                run_start = yield from self._admission.admit(run_start)
            intended = yield from self._launch(run_start)
            if not intended:
                yield from settlement.finish_run_if_done(
                    scope, run_id, actor, self._ids, self._clock.now()
                )
            return
        if not isinstance(plan, PhasePlan) or plan.uploaded != (
            yield from audience.uploaded(stored.id)
        ):
            raise PlanOutdated
        previous = found.run_id
        if previous is not None:
            yield from self._require_ended(previous, control.action, found.phase)
        run_start = yield from self._admission.admit(replace(run_start, retry_of=previous))
        now = self._clock.now()
        most = self._limits.job_max_attempts
        yield from deploy_phase(run_start, plan.jobs, most, self._ids, now)
        if not plan.jobs:
            yield from settlement.finish_run_if_done(scope, run_id, actor, self._ids, now)

    def _remainder_of(
        self, scope: Scope, found: LockedPhase, control: Control
    ) -> Transaction[RunId | None]:
        """The run whose remainder a launch takes up; None: it covers the whole audience."""
        if not (found.run_id and (yield from run_records.find_anywhere(found.run_id))):
            return None
        last = yield from run_records.run(scope, found.run_id)
        accounting = yield from accountings.accounting(last)
        if accounting.waiting and RunStatus(last.status) not in TERMINAL_RUNS:
            raise PreconditionFailed(control.action.value, "previous_run_not_finished", found.phase)
        default = RerunScope.REMAINDER if last.status == RunStatus.PARTIAL else RerunScope.ALL
        is_rerun = control.action is not Action.RETRY
        if is_rerun and (control.scope or default) is RerunScope.ALL:
            if not control.confirm:
                raise PreconditionFailed(control.action.value, "confirmation_required", None)
            return None
        if accounting.waiting:
            raise PreconditionFailed(control.action.value, "items_without_ending", found.phase)
        return last.id

    def _require_ended(self, run_id: RunId, action: Action, phase: str) -> Transaction[None]:
        run = yield from run_records.run_anywhere(run_id)
        if RunStatus(run.status) not in TERMINAL_RUNS:
            raise PreconditionFailed(action.value, "previous_run_not_finished", phase)

    def stop_campaign(
        self, scope: Scope, campaign_id: CampaignId, control: Control
    ) -> Transaction[ControlAnswer]:
        yield from campaigns.campaign(scope, campaign_id)
        yield from one_at_a_time(campaign_id)
        found = yield from campaigns.phases_of(campaign_id)
        target = control_phase((each.phase, PhaseState(each.state)) for each in found)
        if target is None:
            target = next(iter((yield from phases.running_runs(campaign_id)).values()), None)
        if target is None:
            # Nothing is in progress: what was stopped before stays stopped, as requested.
            failed = [each.phase for each in found if each.state == PhaseState.FAILED]
            started = [each.phase for each in found if each.state != PhaseState.NOT_STARTED]
            target = (failed or started or [found[0].phase])[-1]
        return (yield from self.control(scope, campaign_id, target, control, RunId(""), None))

    def _answer(
        self, campaign_id: CampaignId, phase: str, *, changed: bool = True
    ) -> Transaction[ControlAnswer]:
        after = yield from phases.controlled_phase(campaign_id, phase)
        return ControlAnswer(
            campaign_id,
            phase,
            PhaseState(after.state),
            after.last_sequence,
            changed,
            after.run_id,
            after.waits_for,
        )


def _require(phase: str, found: Mapping[str, LockedPhase]) -> LockedPhase:
    if phase not in found:
        raise NotFound(
            f"the campaign has no phase '{phase}'", hint=f"its phases are {', '.join(found)}"
        )
    return found[phase]


def states_of(found: Mapping[str, LockedPhase]) -> dict[str, PhaseState]:
    return {name: PhaseState(each.state) for name, each in found.items()}
