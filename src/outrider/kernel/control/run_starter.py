"""The run starter: a phase's handler plans the run, and then one transaction deploys it.

A launch takes everybody or the remainder of an earlier run; either way the admission gate says
whether it begins at once.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import Conflict, NotFound, PreconditionFailed
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.phases import (
    Action,
    check_free_to_begin,
    decide,
)
from outrider.domain.references import refuse_secrets
from outrider.domain.states import TERMINAL_RUNS, PhaseState, RunStatus
from outrider.kernel.control.admission_gate import AdmissionGate
from outrider.kernel.control.campaign_deployer import CampaignDeployer
from outrider.kernel.control.phase_controls import (
    Control,
    RerunScope,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import (
    accountings,
    alerts,
    audience,
    campaigns,
    run_records,
    settlement,
)
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.deployment import RunStart, deploy_phase
from outrider.kernel.transactions.phases import LockedPhase
from outrider.kernel.transactions.run_requests import HeldFor
from outrider.kernel.work.phase_context import PhaseContexts
from outrider.ports.phases import PhaseHandler, PhaseJobPlan
from outrider.ports.store import Transaction


@dataclass(frozen=True, slots=True)
class Plan:
    """The jobs of a run to be, and how much was uploaded when they were planned."""

    jobs: list[PhaseJobPlan]
    uploaded: int


class PlanOutdated(Exception):
    """A run is to begin that nobody planned, or more was uploaded since."""


class RunStarter:
    def __init__(
        self,
        foundation: Foundation,
        deployer: CampaignDeployer,
        handlers: Mapping[str, PhaseHandler],
        phase_contexts: PhaseContexts,
        admission: AdmissionGate,
    ) -> None:
        self._store = foundation.store
        self._deployer = deployer
        self._handlers = handlers
        self._phase_contexts = phase_contexts
        self._admission = admission
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def plan(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        phase: str,
        control: Control,
        run_id: RunId,
    ) -> Plan | None:
        """Ask the handler before the transaction, and only if there is a beginning to plan."""
        standing = await self._store.read(read_phases(scope, campaign_id, phase))
        if not decide(PhaseState(standing[phase].state), control.action, control.expected):
            return None
        check_free_to_begin(phase, control.action, states_of(standing))
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
        return Plan(plans, uploaded)

    def begin(
        self,
        scope: Scope,
        campaign_id: CampaignId,
        found: LockedPhase,
        control: Control,
        run_id: RunId,
        plan: Plan | None,
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
            raise PlanOutdated
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


def read_phases(
    scope: Scope, campaign_id: CampaignId, phase: str
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
    require_phase(phase, found)
    return found


def require_phase(phase: str, found: Mapping[str, LockedPhase]) -> LockedPhase:
    if phase not in found:
        raise NotFound(
            f"the campaign has no phase '{phase}'", hint=f"its phases are {', '.join(found)}"
        )
    return found[phase]


def states_of(found: Mapping[str, LockedPhase]) -> dict[str, PhaseState]:
    return {name: PhaseState(each.state) for name, each in found.items()}
