"""The event log in Outrider's own database, behind the port that external logs implement too."""

from collections.abc import Sequence
from datetime import datetime

from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent
from outrider.kernel.transactions import run_log
from outrider.ports.event_log import Appended, EventDraft
from outrider.ports.store import Store


class StoreEventLog:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def append(
        self, run_id: RunId, plan_version: str, drafts: Sequence[EventDraft], now: datetime
    ) -> Sequence[Appended]:
        if not drafts:
            return []
        return await self._store.write(run_log.append(run_id, plan_version, drafts, now))

    async def events_after(self, run_id: RunId, after: int, most: int) -> Sequence[RunEvent]:
        return await self._store.read(run_log.events_after(run_id, after, most))
