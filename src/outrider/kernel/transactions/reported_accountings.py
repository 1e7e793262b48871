"""What a run came to, as an event or a phase's progress tells it: known without counting."""

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
    """None of a run from before the log, whose end says nothing."""
    if "accounting" not in document:
        return None
    told = msgspec.convert(document["accounting"], _ReportedAccounting)
    delivery = DeliveryCounts(**msgspec.structs.asdict(told.delivery)) if told.delivery else None
    return Accounting(
        told.intended, told.waiting, told.in_doubt, told.sent, told.failed, told.skipped, delivery
    )


def final_accounting(ending: str) -> Accounting | None:
    """By the payload of the event that ended the run; None where that was not its last word."""
    told = reported_accounting(msgspec.json.decode(ending))
    # A verdict may have come since, of what was in doubt when the run ended.
    return told if told is not None and told.terminal == told.intended else None
