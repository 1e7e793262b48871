"""Message events: what receipts say about messages, queued for all listeners in one transaction.

If nobody listens, nothing is written. Otherwise the events are in the outbox of every sink, and of
the callbacks of those intents that have one, with the same commit.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.ids import OutboxId, WorkspaceId
from outrider.domain.message_events import stream_of, type_of
from outrider.domain.receipts import ReceiptEvent
from outrider.domain.texts import storable
from outrider.limits.bus import MESSAGE_WORDS_MAX_CHARACTERS
from outrider.ports.store import Transaction, ask

INTENT = "intent"


class MessageReport(NamedTuple):
    """One receipt that found its item."""

    outbox_id: OutboxId
    event: ReceiptEvent
    occurred_at: datetime
    """By the provider's clock, or when it was received."""
    permanent: bool = False
    reason: str = ""
    receipt_id: str | None = None
    text: str | None = None
    """Of a reply: what it says."""


class _Subject(NamedTuple):
    """The item that a report is about."""

    id: OutboxId
    tenant_id: str
    workspace_id: WorkspaceId
    origin: str
    run_id: str | None
    campaign_id: str | None
    event_id: str | None
    recipient_id: str
    channel: str
    submission_target: str
    callback_id: str | None


def append(reports: Sequence[MessageReport], now: datetime) -> Transaction[int]:
    """Queue these for their sinks and callbacks, in their order; returns how many there were.

    The caller gives each receipt once: a repeat would be another event."""
    if not reports:
        return 0
    ids = sorted({report.outbox_id for report in reports})
    rows = yield from ask("message_event_subjects", {"id": ids})
    subjects = {row[0]: _Subject(*row) for row in rows}
    heard = [(subjects[each.outbox_id], each) for each in reports if each.outbox_id in subjects]
    if not heard:
        return 0
    yield from ask(
        "insert_message_events",
        {
            "tenant_id": [subject.tenant_id for subject, _ in heard],
            "workspace_id": [subject.workspace_id for subject, _ in heard],
            "outbox_id": [subject.id for subject, _ in heard],
            "stream": [stream_of(subject.workspace_id, subject.id) for subject, _ in heard],
            "callback_id": [subject.callback_id for subject, _ in heard],
            "type": [type_of(report.event).value for _, report in heard],
            "occurred_at": [report.occurred_at for _, report in heard],
            "data": [_data(subject, report) for subject, report in heard],
        },
        contract_version=CONTRACT_VERSION,
        now=now,
    )
    return len(heard)


def _data(subject: _Subject, report: MessageReport) -> str:
    """Without the address: those who may know it can look it up by the item's id."""
    document = {
        "origin": subject.origin,
        "intentId": subject.recipient_id if subject.origin == INTENT else None,
        "runId": subject.run_id,
        "campaignId": subject.campaign_id,
        "domainEventId": subject.event_id,
        "recipientId": subject.recipient_id,
        "channel": subject.channel,
        "submissionTarget": subject.submission_target,
        "permanent": report.permanent,
        "reason": _bounded(report.reason),
        "receiptId": _bounded(report.receipt_id),
    }
    if report.text is not None:
        document["text"] = _bounded(report.text)
    return msgspec.json.encode(document).decode()


def _bounded(text: str | None) -> str | None:
    return storable(text[:MESSAGE_WORDS_MAX_CHARACTERS]) if text is not None else None
