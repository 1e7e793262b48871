"""Stored snapshots of runs: which runs are behind their log, and how one catches up."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import RunId, Scope, TenantId, WorkspaceId
from outrider.domain.projection import RunSnapshot
from outrider.kernel.transactions import run_records
from outrider.kernel.transactions.alerts import AlertCode, resolve_alert
from outrider.kernel.transactions.run_log import LAST_SEQ
from outrider.ports.store import Transaction, ask, ask_alone


class Behind(NamedTuple):
    """A run whose log, at `last_seq`, is ahead of its snapshots."""

    run_id: RunId
    scope: Scope
    last_seq: int


class Stored(NamedTuple):
    """The newest snapshot's document and sequence, if there is one, and the log's end at that
    time."""

    document: str | None
    last_seq: int
    snapshot_seq: int


class Projected(NamedTuple):
    """What a projector has to store for a run.

    `seen_seq` is how far it read the log, whose last numbers may be missing. If that brought
    nothing new there is no document.
    """

    snapshot: RunSnapshot
    document: str | None
    seen_seq: int
    resolved: Sequence[AlertCode]


def behind(after: str, most: int) -> Transaction[list[Behind]]:
    rows = yield from ask_alone("unprojected_runs", after=after, most=most)
    return [
        Behind(RunId(run_id), Scope(TenantId(tenant), WorkspaceId(workspace)), last_seq)
        for run_id, tenant, workspace, last_seq in rows
    ]


def stored(run_id: RunId, until: int = LAST_SEQ) -> Transaction[Stored]:
    """The newest one that contains nothing after `until`."""
    found = yield from ask("newest_run_snapshot", run_id=run_id, until=until)
    ended = yield from ask("run_log_end", run_id=run_id)
    document, snapshot_seq = found[0] if found else (None, 0)
    return Stored(document, ended[0][0], snapshot_seq)


def stored_of(scope: Scope, run_id: RunId, until: int) -> Transaction[Stored]:
    """The same for callers who may see the run; NotFound for others."""
    run = yield from run_records.run(scope, run_id)
    return (yield from stored(run.id, until))


def drop(run_id: RunId, snapshot_seq: int) -> Transaction[None]:
    """Remove an unreadable one; the projector folds it again from the log."""
    yield from ask("drop_run_snapshot", run_id=run_id, seq=snapshot_seq)
    yield from ask("rewind_projection", run_id=run_id)


def steps_of(run_id: RunId, most: int) -> Transaction[list[str]]:
    """The steps of a run's plan, in order, whether they have started or not."""
    rows = yield from ask_alone("steps_of_run", run_id=run_id, most=most)
    return [row[0] for row in rows]


def save(projected: Projected, kept: int, now: datetime) -> Transaction[None]:
    """Locks the run's row first, so that two projectors of a run are serialised."""
    snapshot = projected.snapshot
    yield from ask("advance_projection", run_id=snapshot.run_id, seq=projected.seen_seq)
    if projected.document is not None:
        yield from ask(
            "insert_run_snapshot",
            run_id=snapshot.run_id,
            last_event_seq=snapshot.last_event_seq,
            status=snapshot.status.value,
            document=projected.document,
            now=now,
        )
        yield from ask("prune_run_snapshots", run_id=snapshot.run_id, before=kept - 1)
    for code in projected.resolved:
        yield from resolve_alert(code, snapshot.run_id, now)


def oldest_unprojected(most: int) -> Transaction[datetime | None]:
    rows = yield from ask("oldest_unprojected", most=most)
    found: datetime | None = rows[0][0]
    return found
