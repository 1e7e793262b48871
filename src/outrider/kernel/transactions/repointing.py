"""Where a run's open jobs go, and moving what no provider can have elsewhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import DEFAULT_SCOPE, RunId, Scope
from outrider.kernel.transactions import targets
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.deployment import ContractSnapshot, snapshot_contracts
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask


class RunContract(NamedTuple):
    """A contract of a run's open jobs; not `is_own`: it is only a fallback of theirs."""

    contract_id: int
    is_own: bool
    waiting_jobs: int
    busy_jobs: int


class Moved(NamedTuple):
    """`items` are those that had a row already; most items have none yet."""

    jobs: int
    items: int


def contracts_of(run_id: RunId) -> Transaction[list[RunContract]]:
    rows = yield from ask("contracts_of_run", run_id=run_id)
    return [RunContract(row[0], bool(row[1]), row[2], row[3]) for row in rows]


def store_contract(snapshot: ContractSnapshot, target: str, now: datetime) -> Transaction[int]:
    ids = yield from snapshot_contracts({target: snapshot}, now)
    return ids[target]


def move(run_id: RunId, old_id: int, new_id: int, most: int, now: datetime) -> Transaction[Moved]:
    """A window of jobs that no worker holds, and their rows that no provider can have.

    The jobs are locked until the commit, so that a claim finds both of them moved.
    """
    change = {"run_id": run_id, "old_id": old_id, "new_id": new_id, "now": now}
    jobs = yield from ask("repoint_jobs", most=most, **change)
    if not jobs:
        return Moved(0, 0)
    ids: Sequence[str] = [row[0] for row in jobs]
    items = yield from ask("repoint_items", {"id": ids}, **change)
    return Moved(len(jobs), len(items))


def kept(run_id: RunId, contract_id: int) -> Transaction[int]:
    ((count,),) = yield from ask("count_items_kept", run_id=run_id, contract_id=contract_id)
    found: int = count
    return found


@dataclass(frozen=True, slots=True)
class Repointed:
    """`kept` items may have arrived and stay; `busy_jobs` are held by a worker and stay for now."""

    submission_target: str
    from_url: str
    to_url: str
    jobs: int
    kept: int
    busy_jobs: int


def record_move(
    scope: Scope, run_id: RunId, done: Repointed, actor: str, ids: IdSource, now: datetime
) -> Transaction[None]:
    """Wakes the jobs that wait for the target, and records what was moved."""
    yield from targets.wake(done.submission_target, now)
    detail: dict[str, object] = {
        "submissionTarget": done.submission_target, "jobs": done.jobs, "kept": done.kept,
    }  # fmt: skip
    if scope == DEFAULT_SCOPE:
        # A gateway's address is visible to the server's operator only.
        detail |= {"from": done.from_url, "to": done.to_url}
    entry = AuditEntry(scope, "run.repointed", actor, run_id=run_id, detail=detail)
    yield from record([entry], ids, now)
