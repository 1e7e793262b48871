"""An engine's queries of the job queue: what can be started now, and what is stalled."""

from datetime import datetime
from typing import NamedTuple, assert_never

from outrider.domain.ids import JobId
from outrider.domain.states import JobStatus
from outrider.kernel.transactions import jobs
from outrider.ports.engine import Stalled, Work, WorkKind
from outrider.ports.store import Transaction, ask


class Outlook(NamedTuple):
    """`due` can be started now, `next_at` is when more can; `over`: nothing ever will be."""

    due: list[JobId]
    next_at: datetime | None
    over: bool


def outlook(kind: WorkKind, work_id: str, most: int, now: datetime) -> Transaction[Outlook]:
    match kind:
        case WorkKind.RUN:
            return (yield from _of_run(work_id, most, now))
        case WorkKind.LANE:
            return (yield from _of_lane(JobId(work_id), now))
        case other:
            assert_never(other)


def _of_run(run_id: str, most: int, now: datetime) -> Transaction[Outlook]:
    rows = yield from ask("waiting_jobs", run_id=run_id, most=most + 1)
    due = [row[0] for row in rows if row[1] <= now]
    later = next((row[1] for row in rows if row[1] > now), None)
    over = yield from ask("run_is_over", run_id=run_id)
    return Outlook(due[:most], later, not over or bool(over[0][0]))


def _of_lane(job_id: JobId, now: datetime) -> Transaction[Outlook]:
    """A lane without messages is over: the next message starts it again."""
    found = yield from jobs.job_state(job_id)
    if found is None:
        return Outlook([], None, over=True)
    if found.run_at is None or found.status is JobStatus.LOCKED:
        return Outlook([], None, over=found.status is not JobStatus.LOCKED)
    if found.run_at <= now:
        return Outlook([job_id], None, over=False)
    return Outlook([], found.run_at, over=False)


def stalled(before: datetime, most: int, now: datetime) -> Transaction[list[Stalled]]:
    """Runs only after a while, because starting one notifies the engine. Lanes at once, because
    nothing else reports them."""
    runs = yield from ask("stalled_runs", before=before, most=most)
    lanes = yield from ask("stalled_lanes", before=now, most=most)
    return [
        Stalled(Work(kind, tenant_id, work_id), job_id, due_at)
        for kind, rows in ((WorkKind.RUN, runs), (WorkKind.LANE, lanes))
        for tenant_id, work_id, job_id, due_at in rows
    ]
