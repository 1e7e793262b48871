"""The run reader: a run's log, and the run as folded from it, now or at any sequence.

A snapshot is the newest stored one plus the events after it, so it is never behind the log.
Unreadable snapshots are skipped, and dropped unless a later version wrote them.
"""

import asyncio
from dataclasses import replace
from types import MappingProxyType

import msgspec
import structlog

from outrider.domain.ids import RunId, Scope
from outrider.domain.projection import (
    RunSnapshot,
    StepSnapshot,
    StepStatus,
    incremental_project,
)
from outrider.domain.run_events import RunEvent
from outrider.domain.snapshot_documents import (
    Unreadable,
    snapshot_document,
    snapshot_from_stored,
)
from outrider.kernel.transactions import run_log, run_snapshots
from outrider.kernel.transactions.run_log import LAST_SEQ
from outrider.limits.kernel import Limits
from outrider.ports.store import Store

log = structlog.get_logger()


class RunReader:
    """For callers who may see the run; for others it does not exist."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def events(self, scope: Scope, run_id: RunId, after: int, most: int) -> list[RunEvent]:
        return await self._store.read(run_log.events_of(scope, run_id, after, most))

    async def snapshot(self, scope: Scope, run_id: RunId, at: int | None = None) -> RunSnapshot:
        """The run now, or after the events up to and including `at`."""
        until = LAST_SEQ if at is None else at
        snapshot, last_seq = await self._stored(scope, run_id, until)
        # Only up to the log's current end: the log of a busy run keeps growing.
        return await self._caught_up(snapshot, min(until, last_seq))

    async def _stored(self, scope: Scope, run_id: RunId, until: int) -> tuple[RunSnapshot, int]:
        """The newest readable one, and where the log ended then."""
        while True:
            found = await self._store.read(run_snapshots.stored_of(scope, run_id, until))
            try:
                return await asyncio.to_thread(decoded, run_id, found.document), found.last_seq
            except Unreadable as error:
                log.warning("snapshot_unreadable", run_id=run_id, why=str(error))
                if not error.later:
                    await self._store.write(run_snapshots.drop(run_id, found.snapshot_seq))
                until = found.snapshot_seq - 1

    async def whole_snapshot(
        self, scope: Scope, run_id: RunId, at: int | None = None
    ) -> RunSnapshot:
        """The same including, for the current state, every step of the run's plan: the log contains
        a step only once it has started, and until then it is pending. A past snapshot contains only
        what the log says."""
        snapshot = await self.snapshot(scope, run_id, at)
        if at is not None:
            return snapshot
        planned = await self._store.read(
            run_snapshots.steps_of(run_id, self._limits.snapshot_steps)
        )
        waiting = {
            each: StepSnapshot(each, StepStatus.PENDING)
            for each in planned
            if each not in snapshot.steps
        }
        if not waiting:
            return snapshot
        return replace(snapshot, steps=MappingProxyType({**snapshot.steps, **waiting}))

    async def _caught_up(self, snapshot: RunSnapshot, until: int) -> RunSnapshot:
        run_id, most = snapshot.run_id, self._limits.projector_page_events
        while True:
            page = await self._store.read(
                run_log.events_after(run_id, snapshot.last_event_seq, most, until=until)
            )
            # In a thread: a long log must not block everything else in this process.
            snapshot = await asyncio.to_thread(incremental_project, snapshot, page)
            if len(page) < most:
                return snapshot


def decoded(run_id: RunId, document: str | None) -> RunSnapshot:
    """A run without a stored snapshot starts empty."""
    if document is None:
        return RunSnapshot(run_id)
    try:
        found = msgspec.json.decode(document)
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from error
    return snapshot_from_stored(found)


def encoded(snapshot: RunSnapshot) -> str:
    return msgspec.json.encode(snapshot_document(snapshot)).decode()
