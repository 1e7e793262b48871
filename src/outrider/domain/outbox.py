"""The accounting identity: intended = waiting + in doubt + sent + failed + skipped, always.

Each term is counted on its own, so `holds` is a check that can fail.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Accounting:
    intended: int = 0
    waiting: int = 0
    in_doubt: int = 0
    sent: int = 0
    failed: int = 0
    skipped: int = 0

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
        )
    return summed
