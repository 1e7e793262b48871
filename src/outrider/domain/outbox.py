"""The accounting identity: intended = waiting + in doubt + sent + failed + skipped, always.

Each term is counted on its own, so `holds` is a check that can fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from outrider.domain.delivery_counts import DeliveryCounts


@dataclass(frozen=True, slots=True)
class Accounting:
    intended: int = 0
    waiting: int = 0
    in_doubt: int = 0
    sent: int = 0
    failed: int = 0
    skipped: int = 0
    delivery: DeliveryCounts | None = None
    """What receipts say about sent messages, if requested and applicable."""

    @property
    def accounted(self) -> int:
        return self.waiting + self.in_doubt + self.sent + self.failed + self.skipped

    @property
    def holds(self) -> bool:
        return self.intended == self.accounted and self.waiting >= 0

    @property
    def terminal(self) -> int:
        return self.sent + self.failed + self.skipped

    def as_document(self) -> dict[str, int]:
        return {
            "intended": self.intended,
            "waiting": self.waiting,
            "inDoubt": self.in_doubt,
            "sent": self.sent,
            "failed": self.failed,
            "skipped": self.skipped,
        }

    def as_whole_document(self) -> dict[str, object]:
        """With what receipts say, where that is known."""
        delivery = {"delivery": self.delivery.as_document()} if self.delivery else {}
        return {**self.as_document(), **delivery}

    def with_delivery(self, delivery: DeliveryCounts) -> "Accounting":
        return replace(self, delivery=delivery)


def total(parts: Iterable[Accounting]) -> Accounting:
    summed = Accounting()
    for part in parts:
        summed = Accounting(
            summed.intended + part.intended,
            summed.waiting + part.waiting,
            summed.in_doubt + part.in_doubt,
            summed.sent + part.sent,
            summed.failed + part.failed,
            summed.skipped + part.skipped,
            _delivery(summed, part),
        )
    return summed


def _delivery(one: Accounting, other: Accounting) -> DeliveryCounts | None:
    """Of a part whose receipts nobody asked for, nothing is known."""
    if one.delivery is None and other.delivery is None:
        return None
    first = one.delivery or DeliveryCounts(unknown=one.sent)
    return first.plus(other.delivery or DeliveryCounts(unknown=other.sent))
