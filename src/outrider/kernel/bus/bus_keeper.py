"""The bus keeper: sinks that are registered, resumed or forgotten, and dead letters redriven."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from outrider.domain.errors import Conflict
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.kernel.transactions import bus
from outrider.kernel.transactions.alerts import AlertCode, resolve_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.bus import LetterRecord, SinkRecord
from outrider.kernel.transactions.inspection import FIRST
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Store, Transaction


class Forgotten(NamedTuple):
    """What went with a sink: events that waited for it, and dead letters of it."""

    waiting: int
    dead_letters: int


class BusKeeper:
    def __init__(
        self,
        store: Store,
        clock: Clock,
        ids: IdSource,
        limits: Limits,
        configured: Sequence[str],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._configured = configured

    async def register(self) -> None:
        """From now on every event is written down for these sinks too, whoever appends it."""
        if self._configured:
            await self._store.write(bus.register(self._configured, self._clock.now()))

    async def sinks(self) -> list[SinkRecord]:
        return await self._store.read(bus.sinks(self._limits.bus_counted))

    async def resume(self, sink: str, actor: str) -> None:
        """Tell a sink again that had said it is gone."""

        def resumed() -> Transaction[None]:
            yield from bus.enable(sink, self._clock.now())
            yield from self._recorded(DEFAULT_SCOPE, "bus.sink_resumed", actor, sink=sink)

        await self._store.write(resumed())

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
        await self._store.write(self._forgotten(sink, Forgotten(waiting, letters), actor))
        return Forgotten(waiting, letters)

    async def letters(
        self, scope: Scope, after: str, most: int, *, only_waiting: bool
    ) -> list[LetterRecord]:
        return await self._store.read(
            bus.letters_page(scope, after, most, only_waiting=only_waiting)
        )

    async def redrive(self, scope: Scope, letter_id: str, actor: str) -> str:
        """Returns the sink that will be told again."""

        def redriven() -> Transaction[str]:
            sink = yield from bus.redrive_one(scope, letter_id, self._clock.now())
            yield from self._recorded(scope, "bus.redriven", actor, sink=sink, letters=1)
            return sink

        return await self._store.write(redriven())

    async def redrive_all(self, scope: Scope, actor: str) -> int:
        """Every letter of the workspace whose sink there still is; how many they were."""
        after, redriven = FIRST, 0
        while True:
            most = self._limits.page_items
            page = await self.letters(scope, after, most, only_waiting=True)
            if page:
                redriven += await self._store.write(self._redriven(scope, page, actor))
            if len(page) < most:
                return redriven
            after = page[-1].id

    def _redriven(self, scope: Scope, page: Sequence[LetterRecord], actor: str) -> Transaction[int]:
        count = yield from bus.redrive(scope, [letter.id for letter in page], self._clock.now())
        if count:
            yield from self._recorded(scope, "bus.redriven", actor, letters=count)
        return count

    def _forgotten(self, sink: str, forgotten: Forgotten, actor: str) -> Transaction[None]:
        for code in (AlertCode.EVENT_BUS_DEAD_LETTER, AlertCode.EVENT_BUS_SINK_GONE):
            yield from resolve_alert(code, sink, self._clock.now())
        yield from self._recorded(
            DEFAULT_SCOPE, "bus.sink_forgotten", actor, sink=sink, **forgotten._asdict()
        )

    async def _emptied(self, drop: Callable[[int], Transaction[int]]) -> int:
        dropped = 0
        while True:
            count = await self._store.write(drop(self._limits.bus_forget_items))
            dropped += count
            if count < self._limits.bus_forget_items:
                return dropped

    def _recorded(
        self, scope: Scope, event: str, actor: str, **detail: object
    ) -> Transaction[None]:
        entry = AuditEntry(scope, event, actor, detail=detail)
        yield from record([entry], self._ids, self._clock.now())
