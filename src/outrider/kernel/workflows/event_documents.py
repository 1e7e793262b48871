"""Domain events as their senders see them: the event, its routes, and the resulting messages.

Values stored as JSON are passed through unchanged.
"""

from collections.abc import Sequence

import msgspec

from outrider.domain.notification_status import notification_status
from outrider.domain.states import ItemStatus
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.domain_events import EventContents, EventItem, StoredEvent

NO_ROUTES = "[]"


def event_document(event: StoredEvent) -> dict[str, object]:
    return {
        "eventId": event.event_id,
        "trigger": event.trigger,
        "occurredAt": rfc3339(event.occurred_at),
        "status": event.status,
        "routes": msgspec.Raw((event.routes or NO_ROUTES).encode()),
        "error": event.error,
        "createdAt": rfc3339(event.created_at),
        "updatedAt": rfc3339(event.updated_at),
    }


def whole_event_document(
    event: StoredEvent, contents: EventContents, items: Sequence[EventItem]
) -> dict[str, object]:
    return {
        **event_document(event),
        "subject": msgspec.Raw(contents.subject.encode()),
        "variables": msgspec.Raw(contents.variables.encode()),
        "items": [_item(item) for item in items],
    }


def _item(item: EventItem) -> dict[str, object]:
    status = notification_status(
        ItemStatus(item.status),
        is_open=item.opened_at is not None,
        in_doubt=item.doubted_at is not None,
    )
    return {
        "outboxId": item.id,
        "channel": item.channel,
        "recipientId": item.recipient_id,
        "address": item.address,
        "status": status.value,
        "reason": item.reason,
        "waitsFor": item.waits_for,
        "nextAttemptAt": rfc3339(item.next_attempt_at) if item.next_attempt_at else None,
        "attempts": item.attempts,
        "template": item.template,
        "submissionTarget": item.submission_target,
        "delivery": item.delivery.as_document(),
    }
