"""The event dry run: what a domain event would cause now; nothing is written or sent.

It decides, addresses and renders as the router does, by the current rules. Opt-outs are reported;
conditions known only at delivery (quiet hours, caps) are not.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from outrider.domain.emissions import Emission, event_texts
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import Scope
from outrider.domain.message_content import MessageContent, read_letter
from outrider.domain.recipients import SkipReason
from outrider.domain.unsubscribe import SECRET_BYTES, UnsubscribeUrls
from outrider.domain.workflows import Decision, DomainEventId, EventStatus, RoutePlace
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.event_explainer import Route, enqueued, without_address
from outrider.kernel.transactions import domain_events, suppressions
from outrider.kernel.transactions.digests import DigestEntry
from outrider.kernel.transactions.domain_events import ClaimedEvent
from outrider.kernel.transactions.notifications import NewNotification
from outrider.kernel.transactions.suppressions import PlannedMessage
from outrider.kernel.workflows.event_plan import EventPlan
from outrider.kernel.workflows.event_planner import EventPlanner
from outrider.limits.workflows import REHEARSED_SHOWN_MAX

NO_ONES_SECRET = bytes(SECRET_BYTES)
"""Signs the links shown here: they look real, but opt nobody out."""


class RehearsedMessage(NamedTuple):
    place: RoutePlace
    row: NewNotification
    letter: MessageContent | None
    skipped_because: str | None


class Rehearsal(NamedTuple):
    trigger: str
    status: EventStatus
    problem: str | None
    routes: list[dict[str, Any]]
    messages: list[RehearsedMessage]
    entries: list[DigestEntry]
    not_shown: int
    """How many messages and digest entries there would be beyond those shown."""
    sentences: list[str]
    now: datetime


class EventDryRun:
    def __init__(
        self, foundation: Foundation, planner: EventPlanner, public_url: str | None
    ) -> None:
        self._store = foundation.store
        self._planner = planner
        self._urls = UnsubscribeUrls(public_url, NO_ONES_SECRET) if public_url else None
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def rehearse(self, scope: Scope, emission: Emission) -> Rehearsal:
        now = self._clock.now()
        texts = event_texts(emission)
        event = ClaimedEvent(
            DomainEventId(self._ids.new()), scope.tenant_id, scope.workspace_id,
            emission.event_id, emission.trigger, emission.occurred_at or now, texts.subject,
            texts.variables, 1, None, now, None, None,
        )  # fmt: skip
        rules, steps = await self._store.read(
            domain_events.rules_with_steps(scope, {emission.trigger})
        )
        [plan] = await self._planner.plan([event], rules, steps, now)
        if plan.texts > self._limits.router_texts:
            raise InvalidInput(
                "the event would make too many messages for a dry run",
                [
                    Problem(
                        "subject",
                        f"{plan.texts:,} texts; the maximum is {self._limits.router_texts:,}",
                    )
                ],
            )
        await self._planner.render([plan], self._urls, now)
        shown = [(route.place, row) for route in plan.routes for row in route.rows]
        entries = plan.entries
        listed = shown[:REHEARSED_SHOWN_MAX]
        suppressed = await self._suppressed(scope, [row for _, row in listed])
        return Rehearsal(
            emission.trigger,
            plan.status,
            plan.problem,
            [route.document() for route in plan.routes],
            [_message(place, row, suppressed) for place, row in listed],
            entries[:REHEARSED_SHOWN_MAX],
            len(shown) - len(listed) + max(0, len(entries) - REHEARSED_SHOWN_MAX),
            _sentences(plan),
            now,
        )

    async def _suppressed(
        self, scope: Scope, rows: Sequence[NewNotification]
    ) -> set[PlannedMessage]:
        addressed = [_addressed(row) for row in rows if row.address]
        return await self._store.read(suppressions.suppressed_among(scope, addressed))


def _message(
    place: RoutePlace, row: NewNotification, suppressed: set[PlannedMessage]
) -> RehearsedMessage:
    why = row.reason
    if why is None and _addressed(row) in suppressed:
        why = SkipReason.SUPPRESSED
    letter = read_letter(msgspec.json.decode(row.payload)) if row.reason is None else None
    assert not isinstance(letter, str)
    return RehearsedMessage(place, row, letter, why)


def _addressed(row: NewNotification) -> PlannedMessage:
    return PlannedMessage(row.channel.value, row.address or "", row.purpose)


def _sentences(plan: EventPlan) -> list[str]:
    if plan.error is not None:
        return [f"It could not be processed: {plan.error}."]
    if not plan.routes:
        return ["Its trigger has neither a rule nor a legacy sender: nothing would be sent."]
    listed = [route.document() for route in plan.routes]
    return [each for route in listed for each in (_sentence(route), *without_address(route))]


def _sentence(route: Route) -> str:
    where = f"{route['channel']} to {route['audience']}".capitalize()
    made = enqueued(route)
    match Decision(route["decision"]):
        case Decision.STEPS if route.get("why"):
            return f"{where}: {route['why']}, so nothing would be sent."
        case Decision.STEPS:
            return f"{where}: the rule's steps would create {made}."
        case Decision.SUPPRESSED:
            return f"{where}: the rule is disabled, so nothing would be sent."
        case Decision.LEGACY:
            return (
                f"{where}: there is no rule, so the legacy sender {route['sender']} would create"
                f" {made}."
            )
        case Decision.LEGACY_FALLBACK:
            return (
                f"{where}: the rule could not be enqueued ({route.get('why')}), so the legacy"
                f" sender {route['sender']} would create {made}."
            )
        case Decision.FAILED:
            return f"{where}: nothing would be enqueued ({route.get('why')})."
