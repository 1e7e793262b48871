"""Domain events: their intake, what follows from them, and the rules that decide it."""

from collections.abc import Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

from outrider.bootstrap.delivery import DeliveryRoles
from outrider.bootstrap.engines import EngineRoles
from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.triggers import BUILT_IN_TRIGGERS
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.kernel.workflows.digester import Digester
from outrider.kernel.workflows.event_dry_run import EventDryRun
from outrider.kernel.workflows.event_intake import EventIntake
from outrider.kernel.workflows.event_planner import EventPlanner
from outrider.kernel.workflows.event_router import EventRouter
from outrider.kernel.workflows.message_composer import MessageComposer
from outrider.kernel.workflows.rule_keeper import RuleKeeper
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.kernel.workflows.workflow_checker import WorkflowChecker
from outrider.ports.renderer import Renderer


class WorkflowRoles(DeliveryRoles, EngineRoles):
    @cached_property
    def triggers(self) -> frozenset[str]:
        """Those that are known without a rule."""
        return BUILT_IN_TRIGGERS | frozenset(self.legacy_senders)

    @cached_property
    def step_targets(self) -> StepTargets:
        return StepTargets(
            self.registry_keeper.contracts, GATEWAY_TYPES, self.settings.workflow_targets
        )

    @cached_property
    def rule_keeper(self) -> RuleKeeper:
        return RuleKeeper(self.foundation, self.step_targets, self.policy_keeper)

    @cached_property
    def workflow_checker(self) -> WorkflowChecker:
        from outrider.rendering.checker import check_template

        return WorkflowChecker(
            self.store, GATEWAY_TYPES, self.settings.workflow_targets, self.legacy_senders,
            check_template,
        )  # fmt: skip

    @cached_property
    def event_intake(self) -> EventIntake:
        return EventIntake(self.foundation, self.triggers, self.event_router.wake)

    async def emit(
        self,
        trigger: str,
        *,
        event_id: str,
        subject: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        occurred_at: datetime | None = None,
        scope: Scope = DEFAULT_SCOPE,
    ) -> tuple[StoredEvent, bool]:
        """Record a domain event: the event as stored, and whether it is new."""
        emission = Emission(event_id, trigger, subject or {}, variables or {}, occurred_at)
        return await self.event_intake.emit(scope, emission)

    @cached_property
    def event_router(self) -> EventRouter:
        planner = self._event_planner(self.routing_renderer)
        return EventRouter(
            self.foundation, planner, self.registry_keeper.contracts, self.fallback_of,
            self.unsubscriber, self.wake_lanes,
        )  # fmt: skip

    @cached_property
    def event_rehearser(self) -> EventDryRun:
        # Uses the preview renderer, so that trying something out delays no real event.
        planner = self._event_planner(self.preview_renderer)
        return EventDryRun(self.foundation, planner, self.settings.public_url)

    def _event_planner(self, renderer: Renderer) -> EventPlanner:
        composer = MessageComposer(renderer, self.step_targets, self.fallback_of, self.ids)
        return EventPlanner(composer, self.legacy_senders, self.triggers, self.limits)

    @cached_property
    def digester(self) -> Digester:
        return Digester(
            self.foundation, self.routing_renderer, self.step_targets,
            self.registry_keeper.contracts, self.fallback_of, self.unsubscriber, self.wake_lanes,
        )  # fmt: skip
