"""Remaining members: what is left to do for a campaign's job that was held before."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from outrider.domain.ids import OutboxId
from outrider.domain.states import ItemStatus
from outrider.kernel.transactions.ledger import LedgerRow, Member

Again = tuple[LedgerRow, Member]


@dataclass(frozen=True, slots=True)
class RemainingMembers:
    """A job's members by what is left to do: never called yet, due for another call, or waiting
    although the previous run turned out to have been accepted."""

    fresh: list[Member]
    again: list[Again]
    accepted_late: list[OutboxId] = field(default_factory=list)


def remaining(
    members: Sequence[Member], rows: Sequence[LedgerRow], now: datetime
) -> RemainingMembers:
    """Without those that an earlier claim already handled, or that are not due yet."""
    known = {row.recipient_id: row for row in rows}
    left = RemainingMembers([], [])
    for member in members:
        row = known.get(member.recipient_id)
        if row is None:
            left.fresh.append(member)
        elif row.status != ItemStatus.QUEUED or row.is_doubted:
            continue
        elif member.accepted_late:
            left.accepted_late.append(row.id)
        elif row.is_open or row.next_attempt_at is None or row.next_attempt_at <= now:
            left.again.append((row, member))
    return left


def resolves_silence(row: LedgerRow) -> bool:
    """It may have arrived, so it is settled at any hour."""
    return row.is_open or row.maybe_received
