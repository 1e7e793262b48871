"""Restarting a step: its next logical attempt, over those of its items that did not succeed.

Their rows keep their keys. Earlier results stay in the history of their attempts, and their
contract judges them from here as if they had been submitted now.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from outrider.domain.contracts import contract_from_document
from outrider.domain.ids import JobId, RunId
from outrider.kernel.transactions import contract_documents
from outrider.kernel.transactions.claims import ClaimedJob, ClaimedPhaseJob
from outrider.ports.store import Transaction, ask


class StepState(NamedTuple):
    status: str
    outcome: str | None
    cancelled: bool
    fence: int
    contract_id: int | None
    """None: it is the job of a handler, and has no items in the ledger."""


class NextAttempt(NamedTuple):
    number: int
    items: int


def lock(run_id: RunId, job_id: JobId) -> Transaction[StepState | None]:
    rows = yield from ask("lock_step", run_id=run_id, job_id=job_id)
    return StepState(*rows[0]) if rows else None


def restart(
    run_id: RunId,
    job_id: JobId,
    contract_id: int | None,
    engine_attempts: int,
    due_at: datetime,
    now: datetime,
    *,
    paused: bool | None = None,
) -> Transaction[NextAttempt]:
    """The caller holds the lock on the step's row."""
    rows = yield from ask(
        "retry_step",
        job_id=job_id,
        max_attempts=engine_attempts,
        paused=paused,
        run_at=due_at,
        now=now,
    )
    number = int(rows[0][0])
    if contract_id is None:
        return NextAttempt(number, 0)
    document = yield from contract_documents.contract_document(contract_id)
    contract = contract_from_document(msgspec.json.decode(document))
    yield from ask("archive_failed_items", run_id=run_id, job_id=job_id)
    retried = yield from ask(
        "retry_items",
        run_id=run_id,
        job_id=job_id,
        attempt=number,
        due_at=due_at,
        expires_at=contract.deadline(due_at),
        now=now,
    )
    return NextAttempt(number, len(retried))


def hasten(run_id: RunId, job_id: JobId, now: datetime) -> Transaction[None]:
    yield from ask("hasten_items", run_id=run_id, job_id=job_id, now=now)


def any_dead(run_id: RunId) -> Transaction[bool]:
    """Whether the run has a step that was given up and has not been restarted."""
    return bool((yield from ask("dead_steps", run_id=run_id))[0][0])


def planned_at(job: ClaimedJob | ClaimedPhaseJob, now: datetime) -> Transaction[datetime | None]:
    """When the run's plan restarts a dead step; None: it does not, or no longer does. Whether it
    was stopped is read from its row now, because that may have happened during its last attempt."""
    most, delay_seconds, cancelled = (yield from ask("step_plan", job_id=job.id))[0]
    if cancelled or job.logical_attempt >= most:
        return None
    return now + timedelta(seconds=delay_seconds)


def begin_planned(
    job: ClaimedJob | ClaimedPhaseJob, due_at: datetime, now: datetime
) -> Transaction[None]:
    """With as many engine attempts per logical attempt as before."""
    contract_id = job.contract_id if isinstance(job, ClaimedJob) else None
    engine_attempts = -(-job.max_attempts // job.logical_attempt)
    yield from restart(job.run_id, job.id, contract_id, engine_attempts, due_at, now)
