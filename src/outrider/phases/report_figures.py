"""What a report shows, read once and typed: the latest launch's summary, and its lines as counted.

`Tally` counts lines as they pass on their way into a file; it grows with channels, not with lines.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from outrider.domain.states import SUCCESSES
from outrider.ports.phases import ResultLine


class RunLine(msgspec.Struct, frozen=True, rename="camel"):
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


class Criterion(msgspec.Struct, frozen=True):
    name: str
    holds: bool
    detail: str


class CertificateLine(msgspec.Struct, frozen=True, rename="camel"):
    run_id: str
    campaign_id: str
    holds: bool
    criteria: tuple[Criterion, ...]
    ledger_digest: str
    issued_at: str


class Reason(msgspec.Struct, frozen=True):
    status: str
    items: int
    reason: str | None = None


class Launch(msgspec.Struct, frozen=True):
    run: RunLine
    accounting: Terms
    certificate: CertificateLine
    reasons: tuple[Reason, ...] = ()


@dataclass
class Tally:
    """How many lines there are of each channel and outcome."""

    lines: int = 0
    by_channel: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, lines: Sequence[ResultLine]) -> None:
        self.lines += len(lines)
        for line in lines:
            outcome = "sent" if line.status in SUCCESSES else line.status
            self.by_channel.setdefault(line.channel, Counter())[outcome] += 1


@dataclass(frozen=True)
class Figures:
    campaign_name: str
    launch: Launch
    tally: Tally


def read_launch(summary: Mapping[str, object]) -> Launch:
    return msgspec.convert(summary, Launch)
