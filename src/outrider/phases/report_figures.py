"""What a report shows, read once and typed: the latest launch's summary, and its lines as counted.

`Tally` counts lines as they pass on their way into a file; it grows with channels, not with lines.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.receipts import DeliveryState
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.states import SUCCESSES
from outrider.limits.phases import REPORT_REASONS_COUNTED_MAX
from outrider.ports.phases import ResultLine

NOT_SENT = frozenset({"failed", "skipped"})
OTHER_REASONS = "other reasons"


class ReportedRun(msgspec.Struct, frozen=True, rename="camel"):
    status: str = ""
    channel: str = ""
    created_at: Any = None
    started_at: Any = None
    finished_at: Any = None


class Terms(msgspec.Struct, frozen=True, rename="camel"):
    """The accounting, term by term."""

    intended: int
    waiting: int
    in_doubt: int
    sent: int
    failed: int
    skipped: int

    @property
    def add_up(self) -> bool:
        accounted = self.waiting + self.in_doubt + self.sent + self.failed + self.skipped
        return self.intended == accounted


class ShownCriterion(msgspec.Struct, frozen=True):
    name: str
    holds: bool
    detail: str


class HeldLine(msgspec.Struct, frozen=True, rename="camel"):
    """How many recipients were held back for a while, at most at one time, and for what."""

    waits_for: WaitsFor
    items: int


class CertificateLine(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    campaign_id: str
    holds: bool
    criteria: tuple[ShownCriterion, ...]
    ledger_digest: str
    issued_at: str
    held: tuple[HeldLine, ...] = ()


class Reason(msgspec.Struct, frozen=True):
    status: str
    items: int
    reason: str | None = None


class Launch(msgspec.Struct, frozen=True):
    """`accounting` is of all `runs` together: the latest, and those that it retried."""

    run: ReportedRun
    accounting: Terms
    certificate: CertificateLine
    runs: int = 1


@dataclass
class LineTally:
    """How many lines there are of each channel and outcome, and why messages were not sent."""

    lines: int = 0
    by_channel: dict[str, Counter[str]] = field(default_factory=dict)
    by_reason: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    by_delivery: Counter[DeliveryState] = field(default_factory=Counter)
    """Of what was sent."""

    def count(self, lines: Sequence[ResultLine]) -> None:
        self.lines += len(lines)
        for line in lines:
            outcome = "sent" if line.status in SUCCESSES else line.status
            self.by_channel.setdefault(line.channel, Counter())[outcome] += 1
            if outcome in NOT_SENT:
                self._count_reason(outcome, line.reason)
            if outcome == "sent":
                self.by_delivery[DeliveryState(line.delivery)] += 1

    def _count_reason(self, outcome: str, reason: str | None) -> None:
        """Reasons are untrusted text: beyond a number of distinct ones, the rest are grouped."""
        known = (outcome, reason) in self.by_reason
        if not known and len(self.by_reason) >= REPORT_REASONS_COUNTED_MAX:
            reason = OTHER_REASONS
        self.by_reason[outcome, reason] += 1

    @property
    def deliveries(self) -> DeliveryCounts:
        return DeliveryCounts.of(self.by_delivery, self.by_delivery.total())

    @property
    def reasons(self) -> list[Reason]:
        return [Reason(status, items, reason) for (status, reason), items in self.by_reason.items()]


@dataclass(frozen=True)
class Figures:
    campaign_name: str
    launch: Launch
    tally: LineTally


def read_launch(summary: Mapping[str, object]) -> Launch:
    return msgspec.convert(summary, Launch)
