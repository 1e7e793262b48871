"""The history backfiller: writes to the history what the log had before the history was there.

It reads the log, not the queue, so nothing is queued twice; what the relay writes meanwhile is
written once all the same. Stopped at any point, it continues with what is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass

from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.history_mirror import HistoryMirror
from outrider.kernel.transactions import history, run_log
from outrider.kernel.transactions.history import LoggedRun
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.history import HISTORY_PAGE_EVENTS, HISTORY_PAGE_RUNS
from outrider.ports.history import History


@dataclass
class Backfilled:
    """`runs`: how many were looked at; `filled`: how many lacked something; `events`: how many
    events of those were written or found to be there."""

    runs: int = 0
    filled: int = 0
    events: int = 0


class HistoryBackfiller:
    def __init__(self, foundation: Foundation, to: History, mirror: HistoryMirror) -> None:
        self._store = foundation.store
        self._history = to
        self._mirror = mirror

    async def backfill(self, progress: Callable[[Backfilled], None]) -> Backfilled:
        """Every run that lacks an event, oldest first."""
        await self._history.set_up()
        done, after = Backfilled(), FIRST
        while True:
            page = await self._store.read(history.runs_after(after, HISTORY_PAGE_RUNS))
            if page:
                known = await self._history.counts([run.run_id for run in page])
                for run in page:
                    done.runs += 1
                    if known.get(run.run_id, 0) < run.events:
                        done.events += await self._fill(run)
                        done.filled += 1
                    progress(done)
            if len(page) < HISTORY_PAGE_RUNS:
                return done
            after = page[-1].run_id

    async def _fill(self, run: LoggedRun) -> int:
        after, written = 0, 0
        while True:
            script = run_log.events_after(run.run_id, after, HISTORY_PAGE_EVENTS)
            page = await self._store.read(script)
            if page:
                await self._mirror.write([(run.scope, event) for event in page])
                written += len(page)
            if len(page) < HISTORY_PAGE_EVENTS:
                return written
            after = page[-1].run_seq
