"""The message retirer: removes single messages, domain events and receipts that are old enough.

It walks each table by id, which is by time, in windows; a crash costs nothing but the walk.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from outrider.domain.retention import first_id_at
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import aged_rows, retired_keys
from outrider.kernel.transactions.aged_rows import Aged, AgedWindow
from outrider.kernel.transactions.paging import FIRST
from outrider.limits.proof import (
    RETIRE_REST_SHARE,
    RETIRE_RUNS_LOOKED_AT,
    RETIRE_WINDOW_ROWS,
)
from outrider.ports.store import Transaction


@dataclass(slots=True)
class RetiredMessages:
    messages: int = 0
    events: int = 0
    receipts: int = 0
    """Those of no message; the others go with theirs and are not counted."""
    keys_forgotten: int = 0


class MessageRetirer:
    def __init__(self, foundation: Foundation, memory: timedelta) -> None:
        """`memory`: how long a repeat of what is removed is still recognised."""
        self._store = foundation.store
        self._clock = foundation.clock
        self._memory = memory

    async def retire(self, before: datetime) -> RetiredMessages:
        """Remove what has not changed since this time, and keys whose memory has ended."""
        forget_at = self._clock.now() + self._memory
        done = RetiredMessages(keys_forgotten=await self._forget())
        done.messages = await self._walk(before, lambda aged: aged_rows.items(aged, forget_at))
        done.events = await self._walk(before, lambda aged: aged_rows.events(aged, forget_at))
        await self._walk(before, aged_rows.digests)
        async for workspace_id in self._workspaces():
            done.receipts += await self._walk_receipts(workspace_id, before, forget_at)
        return done

    async def count(self, before: datetime) -> int:
        """How many messages `retire` would remove."""
        return await self._walk(before, aged_rows.count_items)

    async def _walk_receipts(self, workspace_id: str, before: datetime, forget: datetime) -> int:
        return await self._walk(before, lambda aged: aged_rows.receipts(workspace_id, aged, forget))

    async def _walk(
        self, before: datetime, window: Callable[[Aged], Transaction[AgedWindow]]
    ) -> int:
        aged = Aged(FIRST, first_id_at(before), before, RETIRE_WINDOW_ROWS)
        removed = 0
        while True:
            began = self._clock.monotonic()
            found = await self._store.write(window(aged))
            removed += found.removed
            if found.looked_at < aged.most:
                return removed
            aged = aged._replace(after=found.last)
            await self._clock.sleep((self._clock.monotonic() - began) * RETIRE_REST_SHARE)

    async def _workspaces(self) -> AsyncIterator[str]:
        after = FIRST
        while page := await self._store.read(
            aged_rows.workspaces_after(after, RETIRE_RUNS_LOOKED_AT)
        ):
            for workspace_id in page:
                yield workspace_id
            after = page[-1]

    async def _forget(self) -> int:
        forgotten = 0
        while found := await self._store.write(
            retired_keys.forget(self._clock.now(), RETIRE_WINDOW_ROWS)
        ):
            forgotten += found
        return forgotten
