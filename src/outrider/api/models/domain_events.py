"""Domain events on the wire: as received, what was decided, and what followed."""

from datetime import datetime
from typing import Any

from pydantic import Field

from outrider.api.models.blockers import BlockerAnswer
from outrider.api.models.common import Answer, Success
from outrider.api.models.items import DeliveryAnswer
from outrider.domain.notification_status import NotificationStatus
from outrider.domain.states import Channel
from outrider.domain.workflows import Decision, EventStatus


class RouteAnswer(Answer):
    channel: Channel
    audience: str
    decision: Decision
    rule_id: str | None = None
    sender: str | None = Field(default=None, description="The legacy sender used.")
    why: str | None = Field(default=None, description="Why the rule could not be enqueued.")
    items: int | None = Field(default=None, description="Number of messages created.")
    collected: int | None = Field(default=None, description="Number of digest entries created.")
    without_address: list[str] = Field(
        default=[],
        description="Recipients without an address in the event; no message is created for them.",
    )


class EventAnswer(Answer):
    event_id: str
    trigger: str
    occurred_at: datetime
    status: EventStatus
    routes: list[RouteAnswer]
    error: str | None
    created_at: datetime
    updated_at: datetime


class EventItemAnswer(Answer):
    outbox_id: str = Field(description="Its ledger item.")
    channel: Channel
    recipient_id: str
    address: str | None
    status: NotificationStatus
    reason: str | None
    waits_for: str | None
    next_attempt_at: datetime | None
    attempts: int
    template: str
    submission_target: str
    delivery: DeliveryAnswer


class WholeEvent(EventAnswer):
    subject: dict[str, Any]
    variables: dict[str, Any]
    items: list[EventItemAnswer]


class EventExplanation(Answer):
    event_id: str
    sentences: list[str]
    blockers: list[BlockerAnswer] = Field(
        description="What the event waits for, or its messages; empty while they move."
    )


class Rerouted(Success):
    event_id: str
