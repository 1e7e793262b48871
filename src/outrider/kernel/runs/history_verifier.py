"""The history verifier: compares the history with the log, event by event, by hashes of content."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from outrider.domain.history_hashes import event_hash, run_hash
from outrider.domain.ids import RunId
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import history, run_log
from outrider.kernel.transactions.history import LoggedRun
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.history import HISTORY_PAGE_EVENTS, HISTORY_PAGE_RUNS
from outrider.ports.history import EventKey, History

Hashes = dict[int, bytes]
"""Of a run's events, by their sequence."""


class Agreement(StrEnum):
    """`behind`: what is missing is queued. `incomplete`: it is not, and backfilling brings it.
    `differs`: an event is another one than in the log, or the log does not have it."""

    SAME = "same"
    BEHIND = "behind"
    INCOMPLETE = "incomplete"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class RunComparison:
    run_id: RunId
    agreement: Agreement
    log_events: int
    history_events: int
    log_hash: str
    history_hash: str
    different: Sequence[int]
    """The sequences of events that are not as the log has them."""


class HistoryVerifier:
    def __init__(self, foundation: Foundation, with_history: History) -> None:
        self._store = foundation.store
        self._history = with_history

    async def compare(self, only: RunId | None = None) -> AsyncIterator[RunComparison]:
        """Every run of the log, or only this one."""
        after = FIRST
        while True:
            page = await self._store.read(history.runs_after(after, HISTORY_PAGE_RUNS))
            chosen = [run for run in page if only in (None, run.run_id)]
            if chosen:
                for comparison in await self._compared(chosen):
                    yield comparison
            if len(page) < HISTORY_PAGE_RUNS:
                return
            after = page[-1].run_id

    async def _compared(self, runs: Sequence[LoggedRun]) -> list[RunComparison]:
        """In this order, because runs go on: an event of the log that was read is queued, or is in
        the history by the time that is read."""
        logged = {run.run_id: await self._in_log(run.run_id) for run in runs}
        queued = await self._store.read(history.queued(list(logged)))
        mirrored = await self._in_history(list(logged))
        compared = []
        for run_id, in_log in logged.items():
            found = mirrored[run_id]
            if found.keys() - in_log.keys():
                # Appended since, or forged: the log knows.
                later = await self._in_log(run_id)
                in_log |= {seq: each for seq, each in later.items() if seq in found}
            compared.append(_comparison(run_id, in_log, found, is_queued=run_id in queued))
        return compared

    async def _in_history(self, runs: Sequence[RunId]) -> Mapping[RunId, Hashes]:
        found: dict[RunId, Hashes] = {run_id: {} for run_id in runs}
        after, last = EventKey(min(runs), 0), max(runs)
        while True:
            page = await self._history.events_after(after, last, HISTORY_PAGE_EVENTS)
            for event in page:
                if event.run_id in found:
                    found[event.run_id][event.run_seq] = event_hash(event)
            if len(page) < HISTORY_PAGE_EVENTS:
                return found
            after = EventKey(page[-1].run_id, page[-1].run_seq)

    async def _in_log(self, run_id: RunId) -> Hashes:
        found: Hashes = {}
        after = 0
        while True:
            page = await self._store.read(run_log.events_after(run_id, after, HISTORY_PAGE_EVENTS))
            found |= {event.run_seq: event_hash(event) for event in page}
            if len(page) < HISTORY_PAGE_EVENTS:
                return found
            after = page[-1].run_seq


def _comparison(
    run_id: RunId, logged: Hashes, mirrored: Hashes, *, is_queued: bool
) -> RunComparison:
    different = sorted(seq for seq, found in mirrored.items() if logged.get(seq) != found)
    if different:
        agreement = Agreement.DIFFERS
    elif len(mirrored) == len(logged):
        agreement = Agreement.SAME
    else:
        agreement = Agreement.BEHIND if is_queued else Agreement.INCOMPLETE
    return RunComparison(
        run_id, agreement, len(logged), len(mirrored), run_hash(logged), run_hash(mirrored),
        different,
    )  # fmt: skip
