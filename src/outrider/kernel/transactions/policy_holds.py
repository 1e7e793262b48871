"""Policy holds: how many members of a campaign's job wait for a policy, and for what.

Such members have no ledger row yet. Their job is given back until the first of them may go.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import RunId, Scope
from outrider.kernel.transactions import jobs
from outrider.kernel.transactions.claims import ClaimedJob
from outrider.ports.store import Transaction, ask


class PolicyHold(NamedTuple):
    """`waiting` now, `items` at most at one time, since when, and until when the first waits."""

    waits_for: str
    waiting: int
    items: int
    since: datetime
    until: datetime


def release(
    job: ClaimedJob, run_at: datetime, waiting: Mapping[str, int], now: datetime
) -> Transaction[bool]:
    """Give the job back, and note how many of its members wait for what."""
    ours = yield from jobs.release(job, run_at, now)
    if ours:
        yield from ask(
            "note_holds",
            {"waits_for": list(waiting), "waiting": list(waiting.values())},
            run_id=job.run_id,
            job_id=job.id,
            until=run_at,
            now=now,
        )
    return ours


def of_runs(run_ids: Collection[RunId]) -> Transaction[dict[RunId, list[PolicyHold]]]:
    found: dict[RunId, list[PolicyHold]] = {}
    for run_id, *hold in (yield from ask("holds_of_runs", {"id": list(run_ids)})):
        found.setdefault(run_id, []).append(PolicyHold(*hold))
    return found


def wake(scope: Scope, now: datetime) -> Transaction[int]:
    """A policy has changed: look again at what waits for the former one."""
    rows = yield from ask("wake_held_jobs", **scope._asdict(), now=now)
    return len(rows)
