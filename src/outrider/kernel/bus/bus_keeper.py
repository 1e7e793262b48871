"""The bus keeper: sinks that are registered, resumed or forgotten, and dead letters redriven."""

from collections.abc import Callable, Sequence

from outrider.domain.errors import Conflict
from outrider.domain.ids import Scope
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import bus
from outrider.kernel.transactions.bus import Forgotten, LetterRecord, SinkRecord
from outrider.kernel.transactions.paging import FIRST
from outrider.ports.store import Transaction


class BusKeeper:
    def __init__(self, foundation: Foundation, configured: Sequence[str]) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._configured = configured

    async def register(self) -> None:
        """From now on every event is written down for these sinks too, whoever appends it."""
        if self._configured:
            await self._store.write(bus.register(self._configured, self._clock.now()))

    async def sinks(self) -> list[SinkRecord]:
        return await self._store.read(bus.sinks(self._limits.bus_counted))

    async def resume(self, sink: str, actor: str) -> None:
        """Tell a sink again that had said it is gone."""
        await self._store.write(bus.resume(sink, actor, self._ids, self._clock.now()))

    async def forget(self, sink: str, actor: str) -> Forgotten:
        """The sink goes first, so that nothing more is written down for it; then what waits."""
        if sink in self._configured:
            raise Conflict(
                f"the settings still contain the sink '{sink}' and would register it again",
                hint="remove it from OUTRIDER_BUS and outrider.toml, then forget it",
            )
        known = await self._store.write(bus.forget_sink(sink))
        waiting = await self._emptied(lambda most: bus.forget_waiting(sink, most))
        letters = await self._emptied(lambda most: bus.forget_letters(sink, most))
        if not (known or waiting or letters):
            raise bus.no_sink(sink)
        forgotten = Forgotten(waiting, letters)
        await self._store.write(
            bus.record_forgotten(sink, forgotten, actor, self._ids, self._clock.now())
        )
        return forgotten

    async def letters(
        self, scope: Scope, after: str, most: int, *, only_waiting: bool
    ) -> list[LetterRecord]:
        return await self._store.read(
            bus.letters_page(scope, after, most, only_waiting=only_waiting)
        )

    async def redrive(self, scope: Scope, letter_id: str, actor: str) -> str:
        """Returns the sink that will be told again."""
        script = bus.redrive_one_recorded(scope, letter_id, actor, self._ids, self._clock.now())
        return await self._store.write(script)

    async def redrive_all(self, scope: Scope, actor: str) -> int:
        """Every letter of the workspace whose sink there still is; how many they were."""
        after, redriven = FIRST, 0
        while True:
            most = self._limits.page_items
            page = await self.letters(scope, after, most, only_waiting=True)
            if page:
                script = bus.redrive_recorded(scope, page, actor, self._ids, self._clock.now())
                redriven += await self._store.write(script)
            if len(page) < most:
                return redriven
            after = page[-1].id

    async def _emptied(self, drop: Callable[[int], Transaction[int]]) -> int:
        dropped = 0
        while True:
            count = await self._store.write(drop(self._limits.bus_forget_items))
            dropped += count
            if count < self._limits.bus_forget_items:
                return dropped
