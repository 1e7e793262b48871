"""Receipts: what a provider reports of a message after it was taken, and what they add up to.

They come late, twice and in any order, so an item's delivery is the strongest of its receipts:
the same set gives the same delivery, whatever came first. It never changes what the ledger says.
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
    """What became of a message that was taken, as far as receipts say."""

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
    """One report of a provider, in words that are the same for every gateway family."""

    receipt_id: str
    """The provider's own id of this report, unique within its target; where a provider has none,
    its family derives one from what the report says, so that a repeat has the same."""
    event: ReceiptEvent
    reference: str | None = None
    """Our idempotency key, where the provider gave it back."""
    provider_message_id: str | None = None
    permanent: bool = False
    """Of a bounce or failure: trying again is pointless."""
    reason: str = ""
    sender: str | None = None
    """Whose reply it is, where it is one."""
    text: str | None = None
    occurred_at: datetime | None = None
    """By the provider's clock; None where it does not say."""


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
"""Opting in is about an address and not about the message that came before it."""


def rank(event: ReceiptEvent, *, permanent: bool) -> int:
    """The strongest receipt decides. A message that was read had arrived, whatever a server on its
    way reported; a permanent bounce may follow a server's "delivered"; a temporary failure says
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
    """The delivery that a receipt speaks of, where it speaks of a message."""
    return _STATES.get(event)


def fold(receipts: Iterable[tuple[Receipt, datetime]]) -> Delivery:
    """The delivery that these receipts, each with the time it was received, add up to."""

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
