"""A run's whole ledger in pages, as a certificate reads it."""

from typing import NamedTuple

from outrider.domain.ids import OutboxId, RunId
from outrider.kernel.transactions.paging import FIRST
from outrider.ports.store import Transaction, ask


class LedgerLine(NamedTuple):
    """The fields of a row that the certificate checks."""

    job_id: str
    id: OutboxId
    reference: str
    status: str
    submission_target: str
    repeat_target: str | None
    """Where it was called again after getting no answer, and the declared memory that allowed
    it."""
    repeat_memory: str | None
    was_repeated_before: bool
    """Called again after getting no answer, by a version that did not record yet what allowed
    it."""
    was_disproved: bool
    called_target: str | None = None
    """If its last attempt went to a fallback: which."""


class LedgerPosition(NamedTuple):
    """Where a page of a run's rows ended: rows are ordered by job and id."""

    job_id: str = FIRST
    outbox_id: str = FIRST


def ledger_page(run_id: RunId, after: LedgerPosition, most: int) -> Transaction[list[LedgerLine]]:
    rows = yield from ask(
        "ledger_page",
        run_id=run_id,
        after_job=after.job_id,
        after_id=after.outbox_id,
        most=most,
    )
    return [LedgerLine(*row) for row in rows]


def key_is_unique_in_schema() -> Transaction[bool]:
    rows = yield from ask("key_is_unique_in_schema")
    return bool(rows[0][0])
