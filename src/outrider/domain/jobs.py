"""A job ends when all its items have: the outcome rules, and what settling a job decides.

A tally of the job's ledger rows goes in; completed, parked or buried comes out as a value.
"""

from dataclasses import dataclass
from datetime import datetime

from outrider.domain.states import JobOutcome

CANCELLED = "cancelled"
"""Skip reason of what a stop cancelled."""
JOB_DEAD = "job_dead"
"""Skip or failure reason of what its job never reached, or gave up between two attempts."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The states of one job's ledger rows. `open` counts attempts whose answer is still awaited.

    `cancelled` counts the failed and skipped rows that a stop ended.
    """

    intended: int
    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    in_doubt: int = 0
    open: int = 0
    retrying: int = 0
    next_attempt_at: datetime | None = None
    cancelled: int = 0

    @property
    def terminal(self) -> int:
        return self.succeeded + self.failed + self.skipped

    @property
    def unended(self) -> int:
        return self.intended - self.terminal

    @property
    def unreserved(self) -> int:
        return self.unended - self.in_doubt - self.open - self.retrying


@dataclass(frozen=True, slots=True)
class Completed:
    """Every item is terminal; or the job was stopped and the rest is in doubt; or it was given up
    and nothing more can be done for the rest."""

    outcome: JobOutcome


@dataclass(frozen=True, slots=True)
class Parked:
    """Items are waiting. The job is due again at `until`; None means only a verdict can wake it."""

    until: datetime | None


@dataclass(frozen=True, slots=True)
class Unfinished:
    """Items were never reserved, or calls are in progress: the job's handler has not finished."""

    unreserved: int
    open: int


Settlement = Completed | Parked | Unfinished


def job_outcome(tally: Tally) -> JobOutcome:
    """Skipped items are legitimate: they neither fail a job nor count as its success.

    Cancelled ones are not: the job was stopped early. Nor is a job complete that ended without some
    of its items.
    """
    if tally.failed == 0 and tally.cancelled == 0 and tally.unended == 0:
        return JobOutcome.COMPLETED
    return JobOutcome.PARTIAL if tally.succeeded else JobOutcome.FAILED


def settle(tally: Tally, *, stopped: bool = False) -> Settlement:
    """A stopped job waits for no verdict: what is in doubt stays so and can be settled later."""
    if tally.unreserved > 0 or tally.open > 0:
        return Unfinished(tally.unreserved, tally.open)
    if tally.retrying > 0:
        return Parked(tally.next_attempt_at)
    if tally.in_doubt > 0 and not stopped:
        return Parked(None)
    return Completed(job_outcome(tally))
