"""The phase controller: start, pause, resume, stop, rerun and retry the phases of a campaign.

A control is one transaction: the phase's new state, its event, and what its jobs have to know of
it. Asking for what is already so changes nothing and is told so.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import Conflict, NotFound, PreconditionFailed
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.phases import (
    PUT_BACK,
    STOPPED,
    Action,
    check_free_to_begin,
    control_phase,
    decide,
)
from outrider.domain.references import refuse_secrets
from outrider.domain.run_requests import plan_version as plan_version_of
from outrider.domain.signals import AskedSignal
from outrider.domain.states import TERMINAL_RUNS, PhaseState, RunStatus
from outrider.kernel.control.admission_gate import AdmissionGate
from outrider.kernel.control.campaign_deployer import CampaignDeployer
from outrider.kernel.control.phase_controls import (
    Control,
    ControlAnswer,
    RerunScope,
    refusals_logged,
)
from outrider.kernel.control.tried_again import tried_again
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import (
    alerts,
    audience,
    campaigns,
    inspection,
    intakes,
    jobs,
    phases,
    run_requests,
    settlement,
    snapshots,
)
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.deployment import RunStart, deploy_phase
from outrider.kernel.transactions.inspection import RunRecord
from outrider.kernel.transactions.phases import LockedPhase, lock_phases, transition_phase
from outrider.kernel.transactions.run_requests import HeldFor, RunRequest
from outrider.kernel.transactions.snapshots import CampaignSnapshot
from outrider.kernel.transactions.steering import (
    SIGNALS,
    hold_runs,
    log_steering,
)
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.kernel.work.phase_context import PhaseContexts
from outrider.ports.idempotency import KeyUsed
from outrider.ports.phases import PhaseHandler, PhaseJobPlan
from outrider.ports.store import Transaction, ask

log = structlog.get_logger()

CALLER = "phase_controller"
_BEGINNINGS = frozenset({Action.START, Action.RERUN, Action.RETRY})
SUSPENDING = frozenset({Action.PAUSE, Action.STOP})


@dataclass(frozen=True, slots=True)
class _Plan:
    """The jobs of a run to be, and how much was uploaded when they were planned."""

    jobs: list[PhaseJobPlan]
    uploaded: int


class _PlanOutdated(Exception):
    """A run is to begin that nobody planned, or more was uploaded since."""


class PhaseController:
    def __init__(
        self,
        foundation: Foundation,
        deployer: CampaignDeployer,
        handlers: Mapping[str, PhaseHandler],
        phase_contexts: PhaseContexts,
        hub: EventHub,
        admission: AdmissionGate,
        engine_notifier: EngineNotifier,
    ) -> None:
        self._store = foundation.store
        self._deployer = deployer
        self._admission = admission
        self._engine_notifier = engine_notifier
        self._handlers = handlers
        self._phase_contexts = phase_contexts
        self._hub = hub
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def snapshot(self, scope: Scope, campaign_id: CampaignId) -> CampaignSnapshot:
        return await self._store.read(snapshots.snapshot(scope, campaign_id))

    async def control(
        self, scope: Scope, campaign_id: CampaignId, phase: str, control: Control
    ) -> ControlAnswer:
        run_id = RunId(self._ids.new())
        with refusals_logged(campaign_id, phase, control):
            for _ in range(self._limits.control_attempts):
                plan: _Plan | None = None
                if control.action in _BEGINNINGS and phase != LAUNCH:
                    plan = await self._plan(scope, campaign_id, phase, control, run_id)
                script = partial(self._control, scope, campaign_id, phase, control, run_id, plan)
                try:
                    return await self._carried_out(scope, campaign_id, control, script)
                except _PlanOutdated:
                    continue
            raise Conflict(
                f"the phase '{phase}' changed whenever it had been planned", hint="try again"
            )

    async def stop_campaign(
        self, scope: Scope, campaign_id: CampaignId, control: Control
    ) -> ControlAnswer:
        """Stop the one phase that is under way, whichever it is."""
        with refusals_logged(campaign_id, None, control):
            script = partial(self._stop_campaign, scope, campaign_id, control)
            return await self._carried_out(scope, campaign_id, control, script)

    async def _carried_out(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        control: Control,
        script: Callable[[], Transaction[ControlAnswer]],
    ) -> ControlAnswer:
        guard = control.guard
        try:
            answer = await self._written(
                campaign_id, script if guard is None else lambda: guard(script())
            )
        except KeyUsed:
            # It was carried out before, perhaps by a server that died before workers had seen it.
            if control.action in SUSPENDING:
                await self._seen_by_workers(await self._current_runs(campaign_id))
            raise
        await self._tell_engine(scope, control, answer)
        if answer.changed and answer.run_id is not None and control.action in SUSPENDING:
            await self._seen_by_workers([answer.run_id])
        return answer

    async def _current_runs(self, campaign_id: CampaignId) -> list[RunId]:
        standing = await self._store.read(campaigns.phases_of(campaign_id))
        return [RunId(each.run_id) for each in standing if each.run_id]

    async def _seen_by_workers(self, run_ids: Sequence[RunId]) -> None:
        """After a pause or a stop, wait until no worker can begin a call that is not out already:
        each has seen it, or has been silent for longer than its permits last."""
        until = self._clock.monotonic() + self._limits.permit_seconds
        for run_id in run_ids:
            while await self._store.read(jobs.suspensions_unseen(run_id)):
                if self._clock.monotonic() > until:
                    return
                await self._clock.sleep(self._limits.suspension_poll_seconds)

    async def _tell_engine(self, scope: Scope, control: Control, answer: ControlAnswer) -> None:
        if not answer.changed or answer.run_id is None:
            return
        if control.action in SIGNALS:
            await self._engine_notifier.steered(
                scope.tenant_id, answer.run_id, SIGNALS[control.action]
            )
        elif answer.waits_for is None:
            await self._engine_notifier.let_go(scope.tenant_id, answer.run_id)

    async def _written(
        self, campaign_id: CampaignId, script: Callable[[], Transaction[ControlAnswer]]
    ) -> ControlAnswer:
        """A control changes nothing twice."""
        answer = await tried_again(self._store, script, self._clock, self._limits)
        if answer.changed:
            log.info(
                "phase_controlled",
                campaign_id=campaign_id,
                phase=answer.phase,
                state=answer.state.value,
                sequence=answer.sequence,
                run_id=answer.run_id,
            )
            self._hub.wake(campaign_id)
        return answer

    async def _plan(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        phase: str,
        control: Control,
        run_id: RunId,
    ) -> _Plan | None:
        """Ask the handler before the transaction, and only if there is a beginning to plan."""
        standing = await self._store.read(self._standing(scope, campaign_id, phase))
        if not decide(PhaseState(standing[phase].state), control.action, control.expected):
            return None
        check_free_to_begin(phase, control.action, _states(standing))
        handler = self._handlers.get(phase)
        if handler is None:
            raise PreconditionFailed(control.action.value, "no_handler", phase)
        context = await self._phase_contexts.context(scope, campaign_id, run_id)
        uploaded = await self._store.read(audience.uploaded(campaign_id))
        plans = list(await handler.plan(context))
        if len(plans) > self._limits.phase_jobs:
            raise Conflict(
                f"the phase '{phase}' planned {len(plans):,} jobs, more than"
                f" {self._limits.phase_jobs:,}",
                hint="let each of its jobs do more",
            )
        refuse_secrets([plan.detail for plan in plans], f"the plan of the phase '{phase}'")
        return _Plan(plans, uploaded)

    def _standing(
        self, scope: Scope, campaign_id: CampaignId, phase: str
    ) -> Transaction[dict[str, LockedPhase]]:
        yield from campaigns.campaign(scope, campaign_id)
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

    def _control(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        phase: str,
        control: Control,
        run_id: RunId,
        plan: _Plan | None,
    ) -> Transaction[ControlAnswer]:
        yield from campaigns.campaign(scope, campaign_id)
        yield from ask("serialise_controls", campaign_id=campaign_id)
        if control.action in _BEGINNINGS and (yield from ask("run_by_id_anywhere", run_id=run_id)):
            # This very control was committed, and the answer to that was lost.
            return (yield from self._answer(campaign_id, phase))
        if control.action in _BEGINNINGS and control.request_id is not None:
            earlier = yield from self._run_of_request(scope, campaign_id, phase, control.request_id)
            if earlier is not None:
                answer = yield from self._answer(campaign_id, phase, changed=False)
                return replace(answer, run_id=earlier)
        if control.signal is not None:
            told = yield from ask(
                "signal_of_run", run_id=control.run_id, signal_id=control.signal.signal_id
            )
            if told:
                return (yield from self._answer(campaign_id, phase, changed=False))
        # Read before locking: jobs are locked before their phase, here as in settling.
        standing = _require(phase, (yield from self._standing(scope, campaign_id, phase)))
        if control.run_id is not None and control.run_id != standing.run_id:
            raise PreconditionFailed(control.action.value, "run_not_current", phase)
        runs = [standing.run_id] if standing.run_id is not None else []
        going: list[RunId] = []
        if control.action is Action.STOP:
            running = yield from phases.running_runs(campaign_id)
            going = [run for run, of_phase in running.items() if of_phase == phase]
            runs += [run for run in going if run not in runs]
        decided = partial(decide, action=control.action, expected=control.expected)
        triggers = decided(PhaseState(standing.state), run_goes_on=bool(going))
        versions: dict[RunId, str] = {}
        if triggers and control.action not in _BEGINNINGS:
            versions = yield from hold_runs(runs, phase, control.action, self._clock.now())
        locked = yield from lock_phases(campaign_id)
        found = _require(phase, locked)
        state = PhaseState(found.state)
        if state != standing.state:
            # It completed or failed just now, while the jobs were being told; look again.
            triggers = decided(state)
        if not triggers:
            return (yield from self._answer(campaign_id, phase, changed=False))
        if control.action in _BEGINNINGS:
            check_free_to_begin(phase, control.action, _states(locked))
            yield from intakes.refuse_beginnings(campaign_id)
            yield from self._begin(scope, campaign_id, found, control, run_id, plan)
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
            yield from log_steering(run_id, version, asked, control.actor, triggers, now)
        for trigger in triggers:
            reason = STOPPED if trigger == "fail" else None
            if trigger == PUT_BACK:
                yield from phases.put_back(campaign_id, found.phase, CALLER, now)
                continue
            payload: dict[str, object] = {"runId": found.run_id}
            yield from transition_phase(
                campaign_id, found.phase, trigger, now, reason=reason, payload=payload
            )
        detail: dict[str, object] = {"phase": found.phase, "action": control.action.value}
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

    def _run_of_request(
        self, scope: Scope, campaign_id: CampaignId, phase: str, request_id: str
    ) -> Transaction[RunId | None]:
        stored = yield from campaigns.campaign(scope, campaign_id)
        version = plan_version_of(stored.definition)
        request = RunRequest(scope, campaign_id, phase, version, request_id)
        return (yield from run_requests.run_of(request))

    def _begin(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        found: LockedPhase,
        control: Control,
        run_id: RunId,
        plan: _Plan | None,
    ) -> Transaction[None]:
        trigger, actor = control.action.value, control.actor
        if found.run_id is not None:
            now = self._clock.now()
            yield from alerts.resolve_alert(AlertCode.JOB_DEAD, found.run_id, now)
        beginning = RunStart(
            scope, campaign_id, found.phase, run_id, trigger, actor, request_id=control.request_id
        )
        if found.phase == LAUNCH:
            stored = yield from campaigns.campaign(scope, campaign_id)
            retry_of = yield from self._remainder_of(scope, found, control)
            beginning = replace(beginning, retry_of=retry_of)
            if campaigns.read_definition(stored.definition).require_approval:
                beginning = replace(beginning, held=HeldFor.APPROVAL)
            else:
                beginning = yield from self._admission.admit(beginning)
            intended = yield from self._deployer.launch(beginning)
            if not intended:
                yield from settlement.finish_run_if_done(
                    scope, run_id, actor, self._ids, self._clock.now()
                )
            return
        if plan is None or plan.uploaded != (yield from audience.uploaded(campaign_id)):
            raise _PlanOutdated
        previous = found.run_id
        if previous is not None:
            yield from self._require_ended(previous, control.action, found.phase)
        beginning = yield from self._admission.admit(replace(beginning, retry_of=previous))
        now = self._clock.now()
        most = self._limits.job_max_attempts
        yield from deploy_phase(beginning, plan.jobs, most, self._ids, now)
        if not plan.jobs:
            yield from settlement.finish_run_if_done(scope, run_id, actor, self._ids, now)

    def _remainder_of(
        self, scope: Scope, found: LockedPhase, control: Control
    ) -> Transaction[RunId | None]:
        """The run whose remainder a launch takes up; None: it is for everybody."""
        if not (found.run_id and (yield from ask("run_by_id_anywhere", run_id=found.run_id))):
            return None
        last = yield from inspection.run(scope, found.run_id)
        accounting = yield from inspection.accounting(last)
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
        run = yield from inspection.run_anywhere(run_id)
        if RunStatus(run.status) not in TERMINAL_RUNS:
            raise PreconditionFailed(action.value, "previous_run_not_finished", phase)

    def _stop_campaign(
        self, scope: Scope, campaign_id: CampaignId, control: Control
    ) -> Transaction[ControlAnswer]:
        yield from campaigns.campaign(scope, campaign_id)
        yield from ask("serialise_controls", campaign_id=campaign_id)
        standing = yield from campaigns.phases_of(campaign_id)
        target = control_phase((each.phase, PhaseState(each.state)) for each in standing)
        if target is None:
            target = next(iter((yield from phases.running_runs(campaign_id)).values()), None)
        if target is None:
            # Nothing is under way: what was stopped before stays stopped, which is what was asked.
            failed = [each.phase for each in standing if each.state == PhaseState.FAILED]
            started = [each.phase for each in standing if each.state != PhaseState.NOT_STARTED]
            target = (failed or started or [standing[0].phase])[-1]
        return (yield from self._control(scope, campaign_id, target, control, RunId(""), None))

    def _answer(
        self, campaign_id: CampaignId, phase: str, *, changed: bool = True
    ) -> Transaction[ControlAnswer]:
        after = (yield from phases.lock_phases(campaign_id))[phase]
        waits_for = None
        if after.run_id is not None:
            found = yield from ask("run_by_id_anywhere", run_id=after.run_id)
            waits_for = RunRecord(*found[0]).waits_for if found else None
        return ControlAnswer(
            campaign_id,
            phase,
            PhaseState(after.state),
            after.last_sequence,
            changed,
            after.run_id,
            waits_for,
        )


def _require(phase: str, found: Mapping[str, LockedPhase]) -> LockedPhase:
    if phase not in found:
        raise NotFound(
            f"the campaign has no phase '{phase}'", hint=f"its phases are {', '.join(found)}"
        )
    return found[phase]


def _states(found: Mapping[str, LockedPhase]) -> dict[str, PhaseState]:
    return {name: PhaseState(each.state) for name, each in found.items()}
