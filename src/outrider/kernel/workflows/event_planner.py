"""The event planner: decides and renders what follows from each event of a window.

One failing route does not affect the others: it fails alone, or falls back to the legacy sender
that was used before rules.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import structlog

from outrider.domain.failures import described
from outrider.domain.unsubscribe import UnsubscribeUrls
from outrider.domain.workflows import (
    Decision,
    DomainEvent,
    RoutePlace,
    Rule,
    WorkflowStep,
    decide,
    in_order,
)
from outrider.kernel.transactions.domain_events import ClaimedEvent
from outrider.kernel.workflows.event_plan import EventPlan, RouteRecord, kept_routes
from outrider.kernel.workflows.message_composer import MessageComposer
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.limits.kernel import Limits
from outrider.limits.workflows import EVENT_ITEMS_MAX
from outrider.ports.legacy import LegacySender

log = structlog.get_logger()

Senders = Mapping[str, Mapping[RoutePlace, LegacySender]]
"""By trigger, then by channel and audience."""

NO_STEPS = "the rule has no enabled step"

Rules = Mapping[str, Sequence[Rule]]
Steps = Mapping[str, Sequence[WorkflowStep]]


class EventPlanner:
    def __init__(
        self,
        executor: MessageComposer,
        senders: Senders,
        triggers: frozenset[str],
        limits: Limits,
    ) -> None:
        self._executor = executor
        self._senders = senders
        self._triggers = triggers
        self._limits = limits

    async def plan(
        self, events: Sequence[ClaimedEvent], rules: Rules, steps: Steps, now: datetime
    ) -> list[EventPlan]:
        """What is decided for each event; nothing is rendered yet."""
        # In a thread: a legacy sender may take seconds, over a PDF for example.
        return await asyncio.to_thread(
            lambda: [self._planned(event, rules, steps, now) for event in events]
        )

    def _planned(
        self, claimed: ClaimedEvent, rules: Rules, steps: Steps, now: datetime
    ) -> EventPlan:
        if claimed.attempts > self._limits.router_attempts:
            bare = DomainEvent(
                claimed.id, claimed.event_id, claimed.trigger, claimed.occurred_at, {}, {}
            )
            given_up = f"given up after {claimed.attempts - 1} attempts"
            error = f"{given_up}: {claimed.error}" if claimed.error else given_up
            return EventPlan(
                claimed.scope, bare, kept_routes(claimed.routes), error=error, logged_error=given_up
            )
        plan = EventPlan(
            claimed.scope, claimed.event(), kept_routes(claimed.routes), claimed.size_bytes,
            was_tried=claimed.routes is not None or claimed.error is not None,
        )  # fmt: skip
        self._decide(plan, rules.get(claimed.trigger, ()), steps, now)
        if plan.items > EVENT_ITEMS_MAX:
            plan.error = (
                f"it would create {plan.items:,} messages; the maximum is {EVENT_ITEMS_MAX:,}"
            )
            plan.routes = []
        return plan

    async def render(
        self, plans: Sequence[EventPlan], urls: UnsubscribeUrls | None, now: datetime
    ) -> None:
        await self._render(plans, urls)
        fallen = [(plan, route) for plan in plans for route in plan.routes if route.fall_back()]
        for plan, route in fallen:
            await asyncio.to_thread(self._ask_legacy, plan, route, now)
        if fallen:
            await self._render(plans, urls)

    def _decide(self, plan: EventPlan, rules: Sequence[Rule], steps: Steps, now: datetime) -> None:
        event = plan.event
        senders = self._senders.get(event.trigger, {})
        if not rules and not senders and event.trigger not in self._triggers:
            plan.error = f"'{event.trigger}' is not a known trigger"
            return
        for place, rule, decision in decide(rules, senders):
            if plan.has(place):
                continue
            route = plan.add(place, decision, rule, senders.get(place))
            if decision is Decision.LEGACY:
                self._ask_legacy(plan, route, now)
            elif decision is Decision.STEPS and rule is not None:
                self._order(plan, route, rule, steps.get(rule.id, ()), now)

    def _order(
        self,
        plan: EventPlan,
        route: RouteRecord,
        rule: Rule,
        steps: Sequence[WorkflowStep],
        now: datetime,
    ) -> None:
        ordered = self._executor.orders(plan.scope, plan.event, rule, steps, now)
        if isinstance(ordered, str):
            route.fail(ordered)
        elif ordered == ([], []) and not in_order(steps):
            # Nothing was enqueued, so the legacy sender must not fall silent.
            if route.sender is not None:
                route.fail(NO_STEPS)
            else:
                route.why = NO_STEPS
        else:
            route.orders, route.entries = ordered

    def _ask_legacy(self, plan: EventPlan, route: RouteRecord, now: datetime) -> None:
        assert route.sender is not None
        try:
            order = self._executor.legacy_order(plan.scope, plan.event, route.sender, now)
        except Exception as error:
            # Senders are third-party code; a failure must not lose the event.
            log.error(
                "legacy_sender_failed", sender=route.sender.name, errors=list(described(error))
            )
            logged = f"{route.sender.name}: {type(error).__name__}"
            route.fail(f"{logged}: {error}"[:ERROR_DETAIL_MAX_CHARACTERS], logged)
            return
        if isinstance(order, str):
            route.fail(order[:ERROR_DETAIL_MAX_CHARACTERS])
        else:
            route.orders = [order]

    async def _render(self, plans: Sequence[EventPlan], urls: UnsubscribeUrls | None) -> None:
        waiting = [
            route
            for plan in plans
            for route in plan.routes
            if route.orders and not route.rows and not route.failed
        ]
        ordered = [(route, order) for route in waiting for order in route.orders]
        rendered = await self._executor.render([order for _, order in ordered], urls)
        for (route, _), rows in zip(ordered, rendered, strict=True):
            if isinstance(rows, str):
                route.fail(rows)
            elif not route.failed:
                route.rows += rows
