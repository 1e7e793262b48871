"""The projector: keeps the snapshots of runs up to date with their logs.

A run that is behind is read from its watermark, folded, and stored with its new watermark in one
transaction. Any number of projectors may run, and die at any point: the next resumes there.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
import structlog
from cachetools import LRUCache

from outrider.domain.errors import StoreError
from outrider.domain.ids import RunId
from outrider.domain.projection import (
    ENDED,
    Hole,
    RunSnapshot,
    StepSnapshot,
    first_hole,
    incremental_project,
)
from outrider.domain.run_events import RunEvent, RunEventType
from outrider.domain.snapshot_documents import Unreadable, step_document, stored_document
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.run_reader import decoded
from outrider.kernel.transactions import run_log, run_snapshots
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.run_snapshots import Behind, Projected

log = structlog.get_logger()

LAG = AlertCode.PROJECTOR_LAG_HIGH
NON_CONTIGUOUS = AlertCode.PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED


class Projector:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._memory = _Memory(foundation.limits.projector_steps_remembered)
        self._resting: dict[RunId, datetime] = {}
        self.projected_events = 0

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            try:
                await self.project_once()
            except StoreError as error:
                log.warning("projection_failed", error=error.message)
            await self._clock.sleep(self._limits.projector_seconds)

    async def project_once(self) -> int:
        """Visit every run that is behind; returns how many events were projected."""
        before, after = self.projected_events, FIRST
        most = self._limits.projector_runs
        self._wake_the_rested()
        while True:
            page = await self._store.read(run_snapshots.behind(after, most))
            for run in page:
                if run.run_id not in self._resting:
                    await self._visit(run)
            if len(page) < most:
                return self.projected_events - before
            after = page[-1].run_id

    async def lag_seconds(self) -> float:
        """The age of the oldest event that is not in a snapshot yet, whichever projector is
        behind."""
        most = self._limits.projector_runs
        happened_at = await self._store.read(run_snapshots.oldest_unprojected(most))
        if happened_at is None:
            return 0.0
        return max(0.0, (self._clock.now() - happened_at).total_seconds())

    async def _visit(self, run: Behind) -> None:
        began = self._clock.now()
        try:
            await self._project(run)
        except StoreError:
            raise
        except Exception:
            # Snapshots are derived from the log: one that cannot be built must not stop the others,
            # nor the worker running alongside.
            log.exception("run_not_projected", run_id=run.run_id)
        ended = self._clock.now()
        rest = (ended - began) * self._limits.projector_rest_factor
        if rest > timedelta(seconds=self._limits.projector_seconds):
            self._resting[run.run_id] = ended + rest

    def _wake_the_rested(self) -> None:
        """A run with very many steps is expensive to store, so it is stored less often."""
        now = self._clock.now()
        self._resting = {run: due for run, due in self._resting.items() if due > now}

    async def _project(self, run: Behind) -> None:
        base, writer, events, complete, beyond_seq = await self._fetched(run)
        await self._watch_lag(run, events)
        # In threads: a long log must not block everything else in this process.
        snapshot = await asyncio.to_thread(incremental_project, base, events)
        if snapshot.last_event_seq < beyond_seq:
            log.warning("projection_paused", run_id=run.run_id, waits_for=beyond_seq)
            return
        document = None
        if snapshot is not base:
            document = await asyncio.to_thread(writer.written, snapshot)
        seen = max(snapshot.last_event_seq, run.last_seq) if complete else snapshot.last_event_seq
        resolved = (NON_CONTIGUOUS, LAG) if complete else (NON_CONTIGUOUS,)
        projected = Projected(snapshot, document, seen, resolved)
        await self._store.write(
            run_snapshots.save(projected, self._limits.snapshots_kept, self._clock.now())
        )
        self.projected_events += len(events)
        if complete and snapshot.status in ENDED:
            self._memory.forget(run.run_id)
        else:
            self._memory.keep(snapshot, writer)

    async def _fetched(self, run: Behind) -> "_Fetched":
        """The snapshot to continue from, and the events after it.

        If sequence numbers are missing, the cached snapshot is not used: the stored snapshot, and
        all events after it, are fetched again.
        """
        known = self._memory.get(run.run_id)
        base, writer = known or (await self._stored(run.run_id), SnapshotWriter())
        events, complete = await self._delta(base)
        hole = first_hole(base.last_event_seq, events)
        if hole is None:
            return _Fetched(base, writer, events, complete, 0)
        await self._report(run, hole)
        self._memory.forget(run.run_id)
        base = await self._stored(run.run_id)
        events, complete = await self._delta(base)
        return _Fetched(base, writer, events, complete, hole.next_seq)

    async def _stored(self, run_id: RunId) -> RunSnapshot:
        """The newest readable one. Unreadable ones are dropped: they can be rebuilt from the
        log."""
        while True:
            found = await self._store.read(run_snapshots.stored(run_id))
            try:
                return await asyncio.to_thread(decoded, run_id, found.document)
            except Unreadable as error:
                log.warning("snapshot_dropped", run_id=run_id, why=str(error))
                await self._store.write(run_snapshots.drop(run_id, found.snapshot_seq))

    async def _delta(self, base: RunSnapshot) -> tuple[list[RunEvent], bool]:
        """The events after the snapshot, and whether that is all of them."""
        most = self._limits.projector_page_events
        events: list[RunEvent] = []
        while len(events) < self._limits.projector_delta_events:
            after = events[-1].run_seq if events else base.last_event_seq
            page = await self._store.read(run_log.events_after(base.run_id, after, most))
            events += page
            if len(page) < most:
                return events, True
        return events, False

    async def _report(self, run: Behind, hole: Hole) -> None:
        message = f"event {hole.next_seq} was fetched after {hole.last_seq}"
        detail = {"lastSeq": hole.last_seq, "nextSeq": hole.next_seq}
        await self._raise(run, NON_CONTIGUOUS, message, detail)

    async def _watch_lag(self, run: Behind, events: Iterable[RunEvent]) -> None:
        happened_at = oldest_witness(events)
        if happened_at is None:
            return
        seconds = (self._clock.now() - happened_at).total_seconds()
        if seconds > self._limits.projector_lag_alert_seconds:
            message = f"the snapshot is {seconds:.1f} s behind the log"
            await self._raise(run, LAG, message, {"lagSeconds": round(seconds, 3)})

    async def _raise(
        self, run: Behind, code: AlertCode, message: str, detail: Mapping[str, object]
    ) -> None:
        alert = Alert(run.scope, code, run.run_id, message, {"runId": run.run_id, **detail})
        times = await self._store.write(raise_alert(alert, self._ids, self._clock.now()))
        log.warning("alert_raised", code=code.value, run_id=run.run_id, why=message, times=times)


def oldest_witness(events: Iterable[RunEvent]) -> datetime | None:
    """When the oldest of these events happened that indicates how late the projector is.

    A StepStarted may have been spooled for long before it was appended, and migrated events
    happened long before; the newest StepStarted is used if there is nothing else.
    """
    happened_at = None
    for event in events:
        if "adopted" in event.payload:
            continue
        happened_at = event.occurred_at
        if event.type != RunEventType.STEP_STARTED:
            break
    return happened_at


class _Fetched(NamedTuple):
    """`beyond_seq` has to be reached before anything is stored: a gap was seen before it."""

    base: RunSnapshot
    writer: "SnapshotWriter"
    events: list[RunEvent]
    complete: bool
    beyond_seq: int


class SnapshotWriter:
    """Writes one run's snapshots as documents; only steps that changed are encoded again."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[StepSnapshot, msgspec.Raw]] = {}

    def written(self, snapshot: RunSnapshot) -> str:
        return msgspec.json.encode(stored_document(snapshot, self._step)).decode()

    def _step(self, step: StepSnapshot) -> msgspec.Raw:
        known = self._steps.get(step.step_id)
        if known is None or known[0] is not step:
            known = step, msgspec.Raw(msgspec.json.encode(step_document(step)))
            self._steps[step.step_id] = known
        return known[1]


Remembered = tuple[RunSnapshot, SnapshotWriter]


class _Memory:
    """The most recently projected runs' snapshots, bounded by their number of steps."""

    def __init__(self, steps_most: int) -> None:
        self._runs: LRUCache[RunId, Remembered] = LRUCache(steps_most, lambda kept: _room(kept[0]))

    def get(self, run_id: RunId) -> Remembered | None:
        return self._runs.get(run_id)

    def keep(self, snapshot: RunSnapshot, writer: SnapshotWriter) -> None:
        if _room(snapshot) <= self._runs.maxsize:
            self._runs[snapshot.run_id] = snapshot, writer
        else:
            self.forget(snapshot.run_id)

    def forget(self, run_id: RunId) -> None:
        self._runs.pop(run_id, None)


def _room(snapshot: RunSnapshot) -> int:
    """A run without steps takes up some room too."""
    return len(snapshot.steps) + 1
