"""A run's accounting as reported by an event or a phase's progress: known without counting."""

from typing import Any

import msgspec

from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.outbox import Accounting


class _ReportedDelivery(msgspec.Struct, rename="camel"):
    delivered: int
    bounced: int
    complained: int
    read: int
    replied: int
    opted_out: int
    failed: int
    unknown: int


class _ReportedAccounting(msgspec.Struct, rename="camel"):
    intended: int
    waiting: int
    in_doubt: int
    sent: int
    failed: int
    skipped: int
    delivery: _ReportedDelivery | None = None
    """Told while a launch is in progress: afterwards, receipts go on coming."""


def reported_accounting(document: dict[str, Any]) -> Accounting | None:
    """None for a run from before run logs, whose ending contains no accounting."""
    if "accounting" not in document:
        return None
    reported = msgspec.convert(document["accounting"], _ReportedAccounting)
    counts = reported.delivery
    return Accounting(
        reported.intended,
        reported.waiting,
        reported.in_doubt,
        reported.sent,
        reported.failed,
        reported.skipped,
        DeliveryCounts(**msgspec.structs.asdict(counts)) if counts else None,
    )


def final_accounting(ending: str) -> Accounting | None:
    """From the payload of the event that ended the run; None if the counts may have changed
    since."""
    reported = reported_accounting(msgspec.json.decode(ending))
    # Items in doubt when the run ended may have had a verdict since.
    return reported if reported is not None and reported.terminal == reported.intended else None
