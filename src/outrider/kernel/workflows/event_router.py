"""The event router: domain events come in, are decided on once, and leave as ledger rows.

Rows, digests and the event's record are written in one transaction, so an event is routed whole or
not at all. Events of a router that dies are claimed again; keys make that harmless.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import groupby

import structlog

from outrider.domain.batches import in_parts
from outrider.domain.errors import OutriderError, StoreRefused, StoreUnavailable
from outrider.domain.failures import described
from outrider.domain.ids import Scope
from outrider.domain.retry import JOB
from outrider.domain.submission import Contract
from outrider.domain.workflows import DomainEventId, EventStatus
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.contracts.contract_cache import snapshots
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.announcement_listener import woken_by
from outrider.kernel.transactions import (
    domain_events,
    routing,
)
from outrider.kernel.transactions.deployment import ContractSnapshot
from outrider.kernel.transactions.domain_events import ClaimedEvent
from outrider.kernel.workflows.event_plan import EventPlan
from outrider.kernel.workflows.event_planner import EventPlanner, Rules, Steps
from outrider.ports.store import Announced, Transaction

log = structlog.get_logger()

REFUSED = "the database refused it"


class EventRouter:
    def __init__(
        self,
        foundation: Foundation,
        planner: EventPlanner,
        contracts: Callable[[], Mapping[str, Contract]],
        fallback_of: Callable[[str], str | None],
        unsubscriber: Unsubscriber,
        wake_lanes: Callable[[], None],
    ) -> None:
        self._wake_lanes = wake_lanes
        self._store = foundation.store
        self._planner = planner
        self._contracts = contracts
        self._fallback_of = fallback_of
        self._unsubscriber = unsubscriber
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._woken = asyncio.Event()
        self._kept: set[DomainEventId] = set()
        """The claimed events that are still to be routed."""

    def wake(self) -> None:
        """An event was emitted in this process, so there is no need to wait for the next poll."""
        self._woken.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        async with woken_by(self._store, Announced.DOMAIN_EVENTS, self.wake, self._limits):
            while True:
                await self._look()

    async def _look(self) -> None:
        """Route due events, or wait until there may be some."""
        self._woken.clear()
        try:
            routed = await self.route_due()
        except StoreUnavailable as error:
            log.warning("routing_waits_for_store", error=error.message)
            await self._clock.sleep(self._limits.store_backoff_seconds)
            return
        if not routed:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.router_poll_seconds):
                    await self._woken.wait()

    async def route_due(self) -> int:
        """Route a window of due events; returns how many there were."""
        claimed = await self._store.write(
            domain_events.claim(self._limits.router_events, self._lease_end(), self._clock.now())
        )
        if not claimed:
            return 0
        self._kept = {event.id for event in claimed}
        keeping = asyncio.create_task(self._keep())
        try:
            # One workspace's slow templates delay the others by no more than this window.
            by_scope = groupby(sorted(claimed, key=_scope_and_id), key=lambda event: event.scope)
            ended = await asyncio.gather(
                *(self._route_all(list(events)) for _, events in by_scope), return_exceptions=True
            )
        finally:
            keeping.cancel()
            await asyncio.wait([keeping])
        for failure in filter(None, ended):
            raise failure
        return len(claimed)

    async def _route_all(self, events: Sequence[ClaimedEvent]) -> None:
        """The events of one workspace, in groups that may be decoded at once."""
        for part in in_parts(events, lambda event: event.size_bytes, self._limits.router_bytes):
            await self._route(part)

    async def _keep(self) -> None:
        """Until cancelled: extends the claims while rendering takes long."""
        while True:
            await self._clock.sleep(self._limits.router_lease_seconds / 3)
            try:
                await self._store.write(domain_events.keep(sorted(self._kept), self._lease_end()))
            except StoreUnavailable as error:
                log.warning("routing_lease_not_kept", error=error.message)

    def _lease_end(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self._limits.router_lease_seconds)

    async def _route(self, events: Sequence[ClaimedEvent]) -> None:
        """All of them in one transaction, or each in its own if one is to blame."""
        try:
            whole = await self._routed(events)
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(events) == 1:
                await self._postpone(events[0], error)
                return
            whole = False
        if not whole:
            middle = (len(events) + 1) // 2
            await self._route(events[:middle])
            await self._route(events[middle:])

    async def _routed(self, events: Sequence[ClaimedEvent]) -> bool:
        """False: they exceed what may be held in memory at once, and nothing was done."""
        now = self._clock.now()
        scope = events[0].scope
        rules, steps = await self._store.read(
            domain_events.rules_with_steps(scope, {event.trigger for event in events})
        )
        plans = await self._planner.plan(events, rules, steps, now)
        texts = sum(plan.texts for plan in plans)
        weight = sum(plan.weight_bytes for plan in plans)
        if len(events) > 1 and (
            texts > self._limits.router_texts or weight > self._limits.router_bytes
        ):
            return False
        await self._planner.render(plans, await self._unsubscriber.urls(), now)
        try:
            await self._store.write(self._script(scope, plans))
        except StoreRefused as refusal:
            if len(events) > 1:
                raise
            plans = [await self._fallen_back(plans[0], events[0], rules, steps, refusal)]
        self._wake_lanes()
        self._kept.difference_update(event.id for event in events)
        for plan in plans:
            if plan.status is EventStatus.FAILED:
                log.error(
                    "event_not_routed", event_id=plan.event.event_id, trigger=plan.event.trigger,
                    why=plan.logged_problem,
                )  # fmt: skip
        return True

    async def _fallen_back(
        self,
        plan: EventPlan,
        event: ClaimedEvent,
        rules: Rules,
        steps: Steps,
        refusal: StoreRefused,
    ) -> EventPlan:
        """The database refuses what the event's rules produce: the legacy senders replace them, one
        route at first and then all. Raises the refusal if no route has a legacy sender."""
        places = [route.place for route in plan.routes if route.can_fall_back]
        for fallen in [[place] for place in places] + [places] * (len(places) > 1):
            now = self._clock.now()
            [plan] = await self._planner.plan([event], rules, steps, now)
            for route in plan.routes:
                if route.place in fallen:
                    route.fail(refusal.message, REFUSED)
            await self._planner.render([plan], await self._unsubscriber.urls(), now)
            with suppress(StoreRefused):
                await self._store.write(self._script(plan.scope, [plan]))
                log.warning(
                    "event_fell_back", event_id=event.event_id, trigger=event.trigger,
                    error=refusal.message,
                )  # fmt: skip
                return plan
        raise refusal

    def _script(self, scope: Scope, plans: Sequence[EventPlan]) -> Transaction[None]:
        most = self._limits.trouble_counted
        return routing.settle(scope, plans, self._snapshots, most, self._ids, self._clock.now())

    def _snapshots(self, targets: set[str]) -> dict[str, ContractSnapshot]:
        return snapshots(targets, self._contracts(), self._fallback_of)

    async def _postpone(self, event: ClaimedEvent, error: Exception) -> None:
        now = self._clock.now()
        why = error.message if isinstance(error, OutriderError) else repr(error)
        log.error(
            "event_routing_failed", event_id=event.event_id, attempt=event.attempts,
            errors=list(described(error)),
        )  # fmt: skip
        delay = JOB.delay_seconds(event.attempts, jitter=self._ids.jitter())
        self._kept.discard(event.id)
        await self._store.write(
            domain_events.postpone([event.id], now + timedelta(seconds=delay), why, now)
        )


def _scope_and_id(event: ClaimedEvent) -> tuple[Scope, DomainEventId]:
    return event.scope, event.id
