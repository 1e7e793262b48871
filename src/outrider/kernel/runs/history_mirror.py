"""The history mirror: the sink that writes run events, and snapshots made from them, to a history.

A snapshot is written with each event that changes the run's status, as the run was right after it.
A window is one transaction over there, so a history never has one without the other.
"""

from collections.abc import Sequence

import msgspec
import structlog

from outrider.domain.errors import HistoryError, HistoryUnavailable
from outrider.domain.ids import RunId, Scope
from outrider.domain.run_events import RunEvent, RunEventType
from outrider.domain.snapshot_documents import snapshot_document
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.transactions import history
from outrider.limits.history import HISTORY_SNAPSHOT_MAX_BYTES
from outrider.ports.bus import DELIVERED, HELD, BusDelivery, BusEvent, BusVerdict, first_fails
from outrider.ports.history import History, HistoryEvent, HistorySnapshot, RunContext

log = structlog.get_logger()

CHANGES_STATUS = frozenset(
    {
        RunEventType.RUN_APPROVED,
        RunEventType.RUN_STARTED,
        RunEventType.RUN_PAUSED,
        RunEventType.RUN_RESUMED,
        RunEventType.RUN_COMPLETED,
        RunEventType.RUN_FAILED,
        RunEventType.RUN_CANCELLED,
    }
)
STEPS_OMITTED = "stepsOmitted"

Mirrored = tuple[Scope, RunEvent]


class HistoryMirror:
    """A sink of the event bus."""

    def __init__(self, foundation: Foundation, to: History, reader: RunReader) -> None:
        self._store = foundation.store
        self._history = to
        self._reader = reader

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        try:
            await self.write([_mirrored(each) for each in window])
        except HistoryUnavailable as error:
            return first_fails([each.run_id for each in window], _away(error))
        except HistoryError as error:
            log.warning("history_refused", events=len(window), error=error.message)
            return await self._one_by_one(window)
        return [DELIVERED] * len(window)

    async def write(self, mirrored: Sequence[Mirrored]) -> None:
        """These events, and the snapshots that belong to them."""
        runs = sorted({event.run_id for _, event in mirrored})
        contexts = await self._store.read(history.contexts(runs))
        events = [HistoryEvent(event, contexts[event.run_id]) for _, event in mirrored]
        snapshots = [
            await self._snapshot(scope, event, contexts[event.run_id])
            for scope, event in mirrored
            if event.type in CHANGES_STATUS
        ]
        await self._history.merge(events, snapshots)

    async def close(self) -> None:
        await self._history.close()

    async def _one_by_one(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        """Something in this window is refused: everything else goes through, and the first refused
        event of a run holds up those behind it."""
        verdicts = [HELD] * len(window)
        refused: set[str] = set()
        for place, event in enumerate(window):
            if event.run_id in refused:
                continue
            try:
                await self.write([_mirrored(event)])
                verdicts[place] = DELIVERED
            except HistoryUnavailable as error:
                refused |= {each.run_id for each in window}
                verdicts[place] = _away(error)
            except HistoryError as error:
                refused.add(event.run_id)
                verdicts[place] = BusDelivery(BusVerdict.FAILED, error.code.lower())
                log.error(
                    "history_event_refused",
                    run_id=event.run_id, run_seq=event.run_seq, error=error.message,
                )  # fmt: skip
        return verdicts

    async def _snapshot(
        self, scope: Scope, event: RunEvent, context: RunContext
    ) -> HistorySnapshot:
        snapshot = await self._reader.snapshot(scope, RunId(event.run_id), event.run_seq)
        document = msgspec.json.encode(snapshot_document(snapshot))
        if len(document) > HISTORY_SNAPSHOT_MAX_BYTES:
            steps: dict[str, object] = {"steps": [], STEPS_OMITTED: len(snapshot.steps)}
            document = msgspec.json.encode(snapshot_document(snapshot) | steps)
        return HistorySnapshot(
            run_id=event.run_id,
            run_seq=event.run_seq,
            status=snapshot.status.value,
            occurred_at=event.occurred_at,
            started_at=snapshot.started_at,
            completed_at=snapshot.completed_at,
            steps=len(snapshot.steps),
            failed_steps=snapshot.failed_steps,
            document=document.decode(),
            context=context,
        )


def _mirrored(event: BusEvent) -> Mirrored:
    assert event.scope is not None, "a run event has its workspace"
    assert event.event is not None, "the history has a queue of run events"
    return event.scope, event.event


def _away(error: HistoryUnavailable) -> BusDelivery:
    log.warning("history_away", error=error.message)
    return BusDelivery(BusVerdict.AWAY, error.code.lower())
