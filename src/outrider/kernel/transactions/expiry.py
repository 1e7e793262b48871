"""Items that wait beyond their deadline, and ending them by the clock alone."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import (
    JobId,
    OutboxId,
)
from outrider.ports.store import Transaction, ask, ask_alone


def is_any_expired(now: datetime) -> Transaction[bool]:
    """A read, which is cheaper than a write that changes nothing."""
    rows = yield from ask_alone("any_expired", now=now)
    return bool(rows)


class Expired(NamedTuple):
    """An item ended by its deadline. Single messages have no job that waits for them."""

    job_id: JobId | None
    id: OutboxId
    origin: str
    attempts: int
    reason: str


def expire(most: int, now: datetime) -> Transaction[list[Expired]]:
    """End waiting items that could only be accepted too late, and wake the jobs that waited for
    them."""
    rows = yield from ask("expire_items", most=most, now=now)
    expired = [Expired(*row) for row in rows]
    of_runs = sorted({each.job_id for each in expired if each.job_id is not None})
    if of_runs:
        yield from ask("wake_jobs", {"id": of_runs}, call_again=False, now=now)
    return expired
