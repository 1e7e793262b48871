"""The bus keeper: sinks that are registered, resumed or forgotten, and dead letters redriven."""

from collections.abc import Callable, Sequence
from functools import partial

from outrider.domain.bus_queues import CALLBACKS, HISTORY, message_queue, sink_of
from outrider.domain.errors import Conflict
from outrider.domain.ids import Scope
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import bus, bus_letters
from outrider.kernel.transactions.bus import Forgotten, SinkRecord
from outrider.kernel.transactions.bus_letters import LetterRecord
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
        """From now on every event is queued for these sinks too, whichever process appends it."""
        if self._configured:
            of_messages = [message_queue(each) for each in self._configured if each != HISTORY]
            queues = [*self._configured, *of_messages]
            await self._store.write(bus.register(queues, self._clock.now()))

    async def sinks(self) -> list[SinkRecord]:
        """Each once, with what waits in both of its queues; and callbacks, once there are any."""
        found = await self._store.read(bus.sinks(self._limits.bus_counted))
        by_sink: dict[str, SinkRecord] = {}
        for queue in sorted(found):
            name = sink_of(queue.name)
            by_sink[name] = _together(by_sink[name], queue) if name in by_sink else queue
        return list(by_sink.values())

    async def last_error(self, sink: str) -> str | None:
        """Why the first event in line is still there, if it has been tried."""
        return await self._store.read(bus.last_error(sink))

    async def resume(self, sink: str, actor: str) -> None:
        """Tell a sink again that had said it is gone."""
        await self._store.write(bus.resume(sink, actor, self._ids, self._clock.now()))

    async def forget(self, sink: str, actor: str) -> Forgotten:
        """The sink goes first, so that nothing more is written down for it; then what waits."""
        if sink in self._configured:
            raise Conflict(
                f"the settings still contain the sink '{sink}' and would register it again",
                hint="remove it from outrider.toml, OUTRIDER_BUS or OUTRIDER_HISTORY first",
            )
        if sink == CALLBACKS:
            raise Conflict(
                "callbacks cannot be removed: each is delivered, or becomes a dead letter"
            )
        known, waiting, letters = False, 0, 0
        for queue in (sink, message_queue(sink)):
            known = await self._store.write(bus.forget_sink(queue)) or known
            waiting += await self._emptied(partial(bus.forget_waiting, queue))
            letters += await self._emptied(partial(bus.forget_letters, queue))
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
            bus_letters.letters_page(scope, after, most, only_waiting=only_waiting)
        )

    async def redrive(self, scope: Scope, letter_id: str, actor: str) -> str:
        """Returns the sink that receives it again."""
        script = bus_letters.redrive_one_recorded(
            scope, letter_id, actor, self._ids, self._clock.now()
        )
        return await self._store.write(script)

    async def redrive_all(self, scope: Scope, actor: str) -> int:
        """Every letter of the workspace whose sink there still is; how many they were."""
        after, redriven = FIRST, 0
        while True:
            most = self._limits.page_items
            page = await self.letters(scope, after, most, only_waiting=True)
            if page:
                script = bus_letters.redrive_recorded(
                    scope, page, actor, self._ids, self._clock.now()
                )
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


def _together(first: SinkRecord, second: SinkRecord) -> SinkRecord:
    """A sink's two queues as one: people know the sink."""
    return first._replace(
        name=sink_of(first.name),
        owner=first.owner or second.owner,
        lease_expires_at=first.lease_expires_at or second.lease_expires_at,
        published=first.published + second.published,
        failed=first.failed + second.failed,
        disabled_at=first.disabled_at or second.disabled_at,
        disabled_why=first.disabled_why or second.disabled_why,
        waiting=first.waiting + second.waiting,
        dead_letters=first.dead_letters + second.dead_letters,
        oldest_at=min(filter(None, (first.oldest_at, second.oldest_at)), default=None),
    )
