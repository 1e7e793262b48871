"""Receipts: what a provider reports after it accepted a message, folded into one delivery state.

They come late, repeated and in any order, so an item's delivery is the strongest of its receipts,
independent of their order. It never changes the ledger's own outcome.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from outrider.domain.times import rfc3339


class ReceiptEvent(StrEnum):
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    READ = "read"
    REPLIED = "replied"
    OPTED_OUT = "opted_out"
    OPTED_IN = "opted_in"
    FAILED = "failed"


class DeliveryState(StrEnum):
    """What happened to an accepted message, according to its receipts."""

    NONE = "none"
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    READ = "read"
    REPLIED = "replied"
    OPTED_OUT = "opted_out"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Receipt:
    """One report from a provider, in terms common to all gateway families."""

    receipt_id: str
    """The provider's id of this report, unique within its target; where a provider has none, its
    family derives one from the content, so that a repeat has the same id."""
    event: ReceiptEvent
    reference: str | None = None
    """Our idempotency key, where the provider gave it back."""
    provider_message_id: str | None = None
    permanent: bool = False
    """For a bounce or failure: retrying is pointless."""
    reason: str = ""
    sender: str | None = None
    """The sender, if it is a reply."""
    text: str | None = None
    occurred_at: datetime | None = None
    """By the provider's clock; None if it does not say."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The fold of an item's receipts."""

    state: DeliveryState = DeliveryState.NONE
    permanent: bool = False
    reason: str = ""
    at: datetime | None = None

    def as_document(self) -> dict[str, object]:
        return {
            "state": self.state.value,
            "permanent": self.permanent,
            "reason": self.reason,
            "at": rfc3339(self.at) if self.at else None,
        }


UNREPORTED: Final = Delivery()
"""Of an item of which no receipt speaks."""


_STATES: Final = {
    ReceiptEvent.DELIVERED: DeliveryState.DELIVERED,
    ReceiptEvent.BOUNCED: DeliveryState.BOUNCED,
    ReceiptEvent.COMPLAINED: DeliveryState.COMPLAINED,
    ReceiptEvent.READ: DeliveryState.READ,
    ReceiptEvent.REPLIED: DeliveryState.REPLIED,
    ReceiptEvent.OPTED_OUT: DeliveryState.OPTED_OUT,
    ReceiptEvent.FAILED: DeliveryState.FAILED,
}
"""Opting in concerns an address, not the message before it."""


def rank(event: ReceiptEvent, *, permanent: bool) -> int:
    """The strongest receipt decides. A message that was read had arrived, whatever an intermediate
    server reported; a permanent bounce may follow a server's "delivered"; a temporary failure means
    nothing once the message was delivered."""
    match event:
        case ReceiptEvent.OPTED_OUT:
            return 8
        case ReceiptEvent.COMPLAINED:
            return 7
        case ReceiptEvent.REPLIED:
            return 6
        case ReceiptEvent.READ:
            return 5
        case ReceiptEvent.BOUNCED:
            return 4 if permanent else 2
        case ReceiptEvent.DELIVERED:
            return 3
        case ReceiptEvent.FAILED:
            return 4 if permanent else 1
        case ReceiptEvent.OPTED_IN:
            return 0


def state_of(event: ReceiptEvent) -> DeliveryState | None:
    """The delivery that a receipt reports, if it is about a message."""
    return _STATES.get(event)


def fold(receipts: Iterable[tuple[Receipt, datetime]]) -> Delivery:
    """The delivery that these receipts, each with its time of receipt, add up to."""

    def strength(entry: tuple[Receipt, datetime]) -> tuple[int, datetime, str]:
        receipt, received_at = entry
        return (
            rank(receipt.event, permanent=receipt.permanent),
            receipt.occurred_at or received_at,
            receipt.receipt_id,
        )

    counted = [entry for entry in receipts if entry[0].event in _STATES]
    if not counted:
        return Delivery()
    receipt, received_at = max(counted, key=strength)
    at = receipt.occurred_at or received_at
    return Delivery(_STATES[receipt.event], receipt.permanent, receipt.reason, at)
