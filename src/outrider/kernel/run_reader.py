"""The run reader: a run's log, and the run as its log tells it, now or at any sequence.

A snapshot is the newest stored one that helps and, projected on it, what came after: it is never
older than the log, however far the projector is.
"""

import asyncio

import msgspec

from outrider.domain.ids import RunId, Scope
from outrider.domain.projection import RunSnapshot, incremental_project
from outrider.domain.run_events import RunEvent
from outrider.domain.snapshot_documents import snapshot_document, snapshot_from
from outrider.kernel.transactions import inspection, run_log, run_snapshots
from outrider.kernel.transactions.run_log import LAST_SEQ
from outrider.ports.store import Store, Transaction
from outrider.settings import Limits


class RunReader:
    """For whoever may see the run; to others it does not exist."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def events(self, scope: Scope, run_id: RunId, after: int, most: int) -> list[RunEvent]:
        return await self._store.read(_events(scope, run_id, after, most))

    async def snapshot(self, scope: Scope, run_id: RunId, at: int | None = None) -> RunSnapshot:
        """The run now, or after the events up to `at` and none later."""
        until = LAST_SEQ if at is None else at
        found = await self._store.read(run_snapshots.stored_of(scope, run_id, until))
        snapshot = await asyncio.to_thread(decoded, run_id, found.document)
        # Only as far as the log is now: that of a busy run has no end.
        return await self._caught_up(snapshot, min(until, found.last_seq))

    async def _caught_up(self, snapshot: RunSnapshot, until: int) -> RunSnapshot:
        run_id, most = snapshot.run_id, self._limits.projector_page_events
        while True:
            page = await self._store.read(
                run_log.events_after(run_id, snapshot.last_event_seq, most, until=until)
            )
            # In a thread: a long log must not hold up everything else in this process.
            snapshot = await asyncio.to_thread(incremental_project, snapshot, page)
            if len(page) < most:
                return snapshot


def _events(scope: Scope, run_id: RunId, after: int, most: int) -> Transaction[list[RunEvent]]:
    run = yield from inspection.run(scope, run_id)
    return (yield from run_log.events_after(run.id, after, most))


def decoded(run_id: RunId, document: str | None) -> RunSnapshot:
    """A run of which nothing is stored yet begins with nothing."""
    if document is None:
        return RunSnapshot(run_id)
    return snapshot_from(msgspec.json.decode(document))


def encoded(snapshot: RunSnapshot) -> str:
    return msgspec.json.encode(snapshot_document(snapshot)).decode()
