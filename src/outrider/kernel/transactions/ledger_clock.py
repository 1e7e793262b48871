"""The ledger's clock: the database's current time, and the latest time recorded in the ledger."""

from datetime import datetime
from typing import NamedTuple

from outrider.ports.store import Transaction, ask, ask_alone


class ClockReading(NamedTuple):
    """`told_at` is the latest recorded time; None in a database that no worker has used yet."""

    database_at: datetime
    told_at: datetime | None


def read() -> Transaction[ClockReading]:
    rows = yield from ask_alone("read_ledger_clock")
    return ClockReading(*rows[0])


def keep(told_at: datetime, at_most: datetime) -> Transaction[None]:
    """Times beyond `at_most` cannot be right, and are discarded."""
    yield from ask("keep_ledger_clock", told_at=told_at, at_most=at_most)
