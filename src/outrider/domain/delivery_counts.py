"""How many of the messages that were sent have which delivery; together they are all of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from outrider.domain.receipts import DeliveryState


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    delivered: int = 0
    bounced: int = 0
    complained: int = 0
    read: int = 0
    replied: int = 0
    opted_out: int = 0
    failed: int = 0
    unknown: int = 0
    """Sent, and no receipt speaks of them."""

    @classmethod
    def of(cls, counts: Mapping[DeliveryState, int], sent: int) -> "DeliveryCounts":
        reported = {
            state.value: counts.get(state, 0)
            for state in DeliveryState
            if state is not DeliveryState.NONE
        }
        return cls(**reported, unknown=max(0, sent - sum(reported.values())))

    @property
    def reported(self) -> int:
        """Of how many a receipt speaks."""
        return sum(self.named().values())

    def named(self) -> dict[str, int]:
        """The messages with a receipt, by what it says, in words."""
        return {
            "delivered": self.delivered,
            "read": self.read,
            "replied": self.replied,
            "bounced": self.bounced,
            "complained": self.complained,
            "opted out": self.opted_out,
            "not delivered": self.failed,
        }

    def plus(self, other: "DeliveryCounts") -> "DeliveryCounts":
        return DeliveryCounts(
            self.delivered + other.delivered,
            self.bounced + other.bounced,
            self.complained + other.complained,
            self.read + other.read,
            self.replied + other.replied,
            self.opted_out + other.opted_out,
            self.failed + other.failed,
            self.unknown + other.unknown,
        )

    def as_document(self) -> dict[str, int]:
        return {
            "delivered": self.delivered,
            "bounced": self.bounced,
            "complained": self.complained,
            "read": self.read,
            "replied": self.replied,
            "optedOut": self.opted_out,
            "failed": self.failed,
            "unknown": self.unknown,
        }
