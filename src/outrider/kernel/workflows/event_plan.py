"""The plan of an event: a route for each channel and audience, and the event's own record.

Explanations are based on that record, long after rules have changed.
"""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from outrider.domain.ids import RecipientId, Scope
from outrider.domain.workflows import Decision, DomainEvent, EventStatus, RoutePlace, Rule
from outrider.kernel.transactions.digests import DigestEntry
from outrider.kernel.transactions.notifications import NewNotification
from outrider.kernel.workflows.message_composer import MessageOrder
from outrider.limits.gateways import ERROR_DETAIL_MAX_CHARACTERS
from outrider.ports.legacy import LegacySender


@dataclass
class RouteRecord:
    """One channel and audience: the decision, and what will be written for it."""

    place: RoutePlace
    decision: Decision
    rule: Rule | None = None
    sender: LegacySender | None = None
    why: str | None = None
    orders: list[MessageOrder] = field(default_factory=list)
    entries: list[DigestEntry] = field(default_factory=list)
    rows: list[NewNotification] = field(default_factory=list)
    failed: bool = False
    logged_why: str | None = None
    """The part of `why` that may be logged; `why` itself may quote the event."""

    def fail(self, why: str, logged: str | None = None) -> None:
        """All or nothing: what the route had so far is dropped. The first reason counts."""
        if self.failed:
            return
        self.failed, self.why, self.logged_why = True, why, logged or why
        self.orders, self.entries, self.rows = [], [], []

    @property
    def can_fall_back(self) -> bool:
        return self.sender is not None and self.decision is Decision.STEPS

    def fall_back(self) -> bool:
        """Fall back to the legacy sender, if the rule could not be enqueued."""
        if not (self.failed and self.can_fall_back):
            return False
        self.decision, self.failed = Decision.LEGACY_FALLBACK, False
        return True

    @property
    def without_address(self) -> list[RecipientId]:
        """Each once, in the order of the steps."""
        return list(dict.fromkeys(each for order in self.orders for each in order.without_address))

    def document(self) -> dict[str, Any]:
        decision = Decision.FAILED if self.failed else self.decision
        document: dict[str, Any] = {
            "channel": self.place.channel.value,
            "audience": self.place.audience,
            "decision": decision.value,
        }
        if self.rule is not None:
            document["ruleId"] = self.rule.id
        if self.sender is not None and decision in (Decision.LEGACY, Decision.LEGACY_FALLBACK):
            document["sender"] = self.sender.name
        if self.why is not None:
            document["why"] = self.why
        if not self.failed and self.decision is not Decision.SUPPRESSED:
            document["items"] = len(self.rows)
            document["collected"] = len(self.entries)
            if self.without_address:
                document["withoutAddress"] = self.without_address
        return document


@dataclass
class EventPlan:
    scope: Scope
    event: DomainEvent
    kept: list[dict[str, Any]]
    """Routes that succeeded in an earlier routing; they are not repeated."""
    event_bytes: int = 0
    routes: list[RouteRecord] = field(default_factory=list)
    error: str | None = None
    logged_error: str | None = None
    was_tried: bool = False
    """Routed before, and not all of it succeeded."""

    def has(self, place: RoutePlace) -> bool:
        return any(
            (document["channel"], document["audience"]) == (place.channel.value, place.audience)
            for document in self.kept
        )

    def add(
        self, place: RoutePlace, decision: Decision, rule: Rule | None, sender: LegacySender | None
    ) -> RouteRecord:
        route = RouteRecord(place, decision, rule, sender)
        self.routes.append(route)
        return route

    @property
    def items(self) -> int:
        """How many messages it would create, directly or in digests."""
        ordered = (len(order.to) for route in self.routes for order in route.orders)
        return sum(ordered) + len(self.entries)

    @property
    def texts(self) -> int:
        """How many messages have to be rendered."""
        return sum(order.texts for route in self.routes for order in route.orders)

    @property
    def weight_bytes(self) -> int:
        """Memory that rendering and collecting the event take at once."""
        return self.event_bytes * (1 + self.texts + len(self.entries))

    @property
    def rows(self) -> list[NewNotification]:
        return [row for route in self.routes for row in route.rows]

    @property
    def entries(self) -> list[DigestEntry]:
        return [entry for route in self.routes for entry in route.entries]

    @property
    def problem(self) -> str | None:
        """Why not all of it was routed."""
        wrong = [route.why or "" for route in self.routes if route.failed]
        return self.error or "; ".join(wrong) or None

    @property
    def logged_problem(self) -> str:
        """The same for the log and for alerts, without anything the event itself contains."""
        wrong = [route.logged_why or "" for route in self.routes if route.failed]
        whole = self.logged_error or self.error
        return (whole or "; ".join(wrong))[:ERROR_DETAIL_MAX_CHARACTERS]

    @property
    def status(self) -> EventStatus:
        return EventStatus.FAILED if self.problem else EventStatus.ROUTED

    def document(self) -> str:
        document = [*self.kept, *(route.document() for route in self.routes)]
        return msgspec.json.encode(document).decode()


def kept_routes(text: str | None) -> list[dict[str, Any]]:
    document: list[dict[str, Any]] = msgspec.json.decode(text) if text else []
    return [route for route in document if route["decision"] != Decision.FAILED]
