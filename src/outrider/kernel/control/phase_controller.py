"""The phase controller: start, pause, resume, stop, rerun and retry the phases of a campaign.

A control is one transaction: the phase's new state, its event, and the update to its jobs. Asking
for a state the phase already has changes nothing, and the answer says so.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import structlog

from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import Conflict, PreconditionFailed
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.phases import (
    Action,
    check_free_to_begin,
    decide,
)
from outrider.domain.references import refuse_secrets
from outrider.domain.states import PhaseState
from outrider.kernel.control.campaign_deployer import CampaignDeployer
from outrider.kernel.control.tried_again import tried_again
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import (
    audience,
    audience_counts,
    campaigns,
    jobs,
    snapshots,
)
from outrider.kernel.transactions.admission_gate import AdmissionGate
from outrider.kernel.transactions.audience_counts import CountedAudience
from outrider.kernel.transactions.control_scripts import (
    BEGINNINGS,
    ControlScripts,
    PhasePlan,
    PlanOutdated,
    states_of,
)
from outrider.kernel.transactions.phase_controls import (
    Control,
    ControlAnswer,
    refusals_logged,
)
from outrider.kernel.transactions.snapshots import CampaignSnapshot
from outrider.kernel.transactions.steering import (
    SIGNALS,
)
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.kernel.work.phase_context import PhaseContexts
from outrider.ports.idempotency import KeyUsed
from outrider.ports.phases import PhaseHandler
from outrider.ports.store import Transaction

log = structlog.get_logger()

SUSPENDING = frozenset({Action.PAUSE, Action.STOP})
COVERING_ALL = frozenset({Action.START, Action.RERUN})
"""A launch started by one of these may cover the whole audience."""


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
        blocker_finder: BlockerFinder,
    ) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._scripts = ControlScripts(
            deployer.launch, admission, self._clock, self._ids, self._limits
        )
        self._engine_notifier = engine_notifier
        self._handlers = handlers
        self._phase_contexts = phase_contexts
        self._hub = hub
        self._blocker_finder = blocker_finder

    async def snapshot(self, scope: Scope, campaign_id: CampaignId) -> CampaignSnapshot:
        found = await self._store.read(snapshots.snapshot(scope, campaign_id))
        under_way = [phase.run_id for phase in found.phases if phase.run_id and phase.is_under_way]
        return found.with_blockers(await self._blocker_finder.of_runs(under_way))

    async def control(
        self, scope: Scope, campaign_id: CampaignId, phase: str, control: Control
    ) -> ControlAnswer:
        run_id = RunId(self._ids.new())
        with refusals_logged(campaign_id, phase, control):
            for _ in range(self._limits.control_attempts):
                plan: PhasePlan | CountedAudience | None = None
                if phase == LAUNCH and control.action in COVERING_ALL:
                    plan = await self._store.read(
                        audience_counts.count_audience(scope, campaign_id, run_id)
                    )
                elif phase != LAUNCH and control.action in BEGINNINGS:
                    plan = await self._plan(scope, campaign_id, phase, control, run_id)
                script = partial(
                    self._scripts.control, scope, campaign_id, phase, control, run_id, plan
                )
                try:
                    return await self._carried_out(scope, campaign_id, control, script)
                except PlanOutdated:
                    continue
            raise Conflict(
                f"the phase '{phase}' kept changing while it was being planned", hint="try again"
            )

    async def stop_campaign(
        self, scope: Scope, campaign_id: CampaignId, control: Control
    ) -> ControlAnswer:
        """Stop the one phase that is in progress, whichever it is."""
        with refusals_logged(campaign_id, None, control):
            script = partial(self._scripts.stop_campaign, scope, campaign_id, control)
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
        await self._notify_engine(scope, control, answer)
        if answer.changed and answer.run_id is not None and control.action in SUSPENDING:
            await self._seen_by_workers([answer.run_id])
        return answer

    async def _current_runs(self, campaign_id: CampaignId) -> list[RunId]:
        phases = await self._store.read(campaigns.phases_of(campaign_id))
        return [RunId(each.run_id) for each in phases if each.run_id]

    async def _seen_by_workers(self, run_ids: Sequence[RunId]) -> None:
        """After a pause or a stop, wait until no worker can begin a new call: each has seen the
        control, or has been silent for longer than its permits last."""
        until = self._clock.monotonic() + self._limits.permit_seconds
        for run_id in run_ids:
            while await self._store.read(jobs.suspensions_unseen(run_id)):
                if self._clock.monotonic() > until:
                    return
                await self._clock.sleep(self._limits.suspension_poll_seconds)

    async def _notify_engine(self, scope: Scope, control: Control, answer: ControlAnswer) -> None:
        if not answer.changed or answer.run_id is None:
            return
        if control.action in SIGNALS:
            await self._engine_notifier.steered(
                scope.tenant_id, answer.run_id, SIGNALS[control.action]
            )
        elif answer.waits_for is None:
            await self._engine_notifier.released(scope.tenant_id, answer.run_id)

    async def _written(
        self, campaign_id: CampaignId, script: Callable[[], Transaction[ControlAnswer]]
    ) -> ControlAnswer:
        """Applying a control twice has no further effect."""
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
    ) -> PhasePlan | None:
        """Ask the handler before the transaction, and only if a run is about to start."""
        phases = await self._store.read(self._scripts.read_phases(scope, campaign_id, phase))
        if not decide(PhaseState(phases[phase].state), control.action, control.expected):
            return None
        check_free_to_begin(phase, control.action, states_of(phases))
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
                hint="give each of its jobs more work",
            )
        refuse_secrets([plan.detail for plan in plans], f"the plan of the phase '{phase}'")
        return PhasePlan(plans, uploaded)
