"""Reading the jobs of a run: in pages, and counted by status and reason."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import RunId
from outrider.ports.store import Transaction, ask


class JobLine(NamedTuple):
    """One job of a run, as a list shows it."""

    id: str
    job_type: str
    submission_target: str
    status: str
    outcome: str | None
    attempts: int
    items: int
    sent: int
    failed: int
    skipped: int
    paused: bool
    cancelled: bool
    last_error: str | None
    run_at: datetime | None
    result: str | None
    updated_at: datetime


class JobCount(NamedTuple):
    status: str
    outcome: str | None
    jobs: int
    attempts: int
    last_error: str | None


class ReasonCount(NamedTuple):
    status: str
    reason: str
    items: int


def jobs_page(run_id: RunId, after: str, most: int) -> Transaction[list[JobLine]]:
    rows = yield from ask("jobs_page", run_id=run_id, after=after, most=most)
    return [JobLine(*row) for row in rows]


def job_counts(run_id: RunId) -> Transaction[list[JobCount]]:
    rows = yield from ask("count_jobs", run_id=run_id)
    return [JobCount(*row) for row in rows]


def reason_counts(run_id: RunId) -> Transaction[list[ReasonCount]]:
    rows = yield from ask("count_reasons", run_id=run_id)
    return [ReasonCount(*row) for row in rows]
