"""Message events: what happened to single messages, whichever door they came through. A receipt
creates one for the sinks of the bus and for the callback of its intent; an intent's own outcome is
sent to its callback only. A consumer recognises a repeat by the CloudEvent's `id`.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final, assert_never
from uuid import UUID

from outrider.domain.ids import OutboxId, WorkspaceId
from outrider.domain.receipts import ReceiptEvent

STREAMS_PER_WORKSPACE: Final = 16
"""Events of different streams are published side by side, those of one stream in order."""


class MessageEventType(StrEnum):
    MESSAGE_DELIVERED = "MessageDelivered"
    MESSAGE_BOUNCED = "MessageBounced"
    MESSAGE_COMPLAINED = "MessageComplained"
    MESSAGE_READ = "MessageRead"
    MESSAGE_REPLIED = "MessageReplied"
    MESSAGE_FAILED = "MessageFailed"
    RECIPIENT_OPTED_OUT = "RecipientOptedOut"
    RECIPIENT_OPTED_IN = "RecipientOptedIn"
    INTENT_ACCEPTED = "IntentAccepted"
    INTENT_REJECTED = "IntentRejected"
    INTENT_EXHAUSTED = "IntentExhausted"
    INTENT_IN_DOUBT = "IntentInDoubt"


@dataclass(frozen=True, slots=True)
class MessageEvent:
    seq: int
    """Grows over all messages of a database; gaps are normal."""
    type: str
    occurred_at: datetime
    outbox_id: OutboxId
    data: Mapping[str, object]
    contract_version: str


@dataclass(frozen=True, slots=True)
class CallbackAddress:
    """Where an event goes that is for whoever submitted its intent."""

    url: str
    disabled: bool = False


def type_of(event: ReceiptEvent) -> MessageEventType:
    match event:
        case ReceiptEvent.DELIVERED:
            return MessageEventType.MESSAGE_DELIVERED
        case ReceiptEvent.BOUNCED:
            return MessageEventType.MESSAGE_BOUNCED
        case ReceiptEvent.COMPLAINED:
            return MessageEventType.MESSAGE_COMPLAINED
        case ReceiptEvent.READ:
            return MessageEventType.MESSAGE_READ
        case ReceiptEvent.REPLIED:
            return MessageEventType.MESSAGE_REPLIED
        case ReceiptEvent.FAILED:
            return MessageEventType.MESSAGE_FAILED
        case ReceiptEvent.OPTED_OUT:
            return MessageEventType.RECIPIENT_OPTED_OUT
        case ReceiptEvent.OPTED_IN:
            return MessageEventType.RECIPIENT_OPTED_IN
        case other:
            assert_never(other)


def stream_of(workspace_id: WorkspaceId, outbox_id: OutboxId) -> str:
    """The stream of a message: always the same one, so that its events stay in order."""
    number = int(outbox_id[-2:], 16) % STREAMS_PER_WORKSPACE
    digest = hashlib.sha256(f"{workspace_id}/{number}".encode()).digest()
    return str(UUID(bytes=digest[:16]))
