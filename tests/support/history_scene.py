"""What tests of the history share: runs with a log, and a history that can be away or refuse."""

from collections.abc import Mapping, Sequence

from outrider.domain.bus_queues import HISTORY
from outrider.domain.errors import HistoryRefused, HistoryUnavailable
from outrider.domain.ids import RunId, WorkerId
from outrider.domain.run_events import RunEvent, RunEventType
from outrider.engines.process_identity import is_dead
from outrider.kernel.bus.bus_keeper import BusKeeper
from outrider.kernel.bus.bus_relay import BusRelay
from outrider.kernel.runs.history_backfiller import HistoryBackfiller
from outrider.kernel.runs.history_mirror import HistoryMirror
from outrider.kernel.runs.history_verifier import HistoryVerifier, RunComparison
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.transactions import bus, run_log
from outrider.kernel.transactions.run_log import EventDraft
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock
from outrider.ports.history import EventKey, History, HistoryEvent, HistorySnapshot
from outrider.ports.store import Store
from outrider.system import SystemClock
from outrider.testing.store_suite.workshop import NOON, Workshop
from tests.support.foundations import foundation

ME = WorkerId("relay-one")


class KeptHistory:
    """A history in memory. `away`: it cannot be reached. `refused`: sequences it does not take."""

    def __init__(self) -> None:
        self.events: dict[EventKey, HistoryEvent] = {}
        self.snapshots: dict[EventKey, HistorySnapshot] = {}
        self.away = False
        self.refused: set[int] = set()
        self.merges = 0

    async def reach(self) -> None: ...

    async def set_up(self) -> None: ...

    async def merge(
        self, events: Sequence[HistoryEvent], snapshots: Sequence[HistorySnapshot]
    ) -> None:
        self.merges += 1
        if self.away:
            raise HistoryUnavailable("nobody there")
        if self.refused & {each.event.run_seq for each in events}:
            raise HistoryRefused("not like this")
        for each in events:
            self.events.setdefault(EventKey(each.event.run_id, each.event.run_seq), each)
        for snapshot in snapshots:
            self.snapshots.setdefault(EventKey(snapshot.run_id, snapshot.run_seq), snapshot)

    async def counts(self, runs: Sequence[RunId]) -> Mapping[RunId, int]:
        return {run: sum(place.run_id == run for place in self.events) for run in runs}

    async def events_after(self, after: EventKey, last: RunId, most: int) -> Sequence[RunEvent]:
        found = sorted(place for place in self.events if place > after and place.run_id <= last)
        return [self.events[place].event for place in found[:most]]

    async def close(self) -> None: ...


class HistoryScene:
    def __init__(
        self, store: Store, to: History, clock: Clock | None = None, limits: Limits | None = None
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.base = foundation(store, clock=self.clock, limits=limits or Limits())
        self.workshop = Workshop(store)
        self.keeper = BusKeeper(self.base, [HISTORY])
        self.mirror = HistoryMirror(self.base, to, RunReader(store, self.base.limits))
        self.backfiller = HistoryBackfiller(self.base, to, self.mirror)
        self.verifier = HistoryVerifier(self.base, to)

    async def run(self, *, steps: int = 0) -> RunId:
        """A run that has started, with the events of these steps."""
        run_id = await self.workshop.launch(1)
        await self.happen(run_id, RunEventType.RUN_STARTED)
        for number in range(steps):
            await self.happen(run_id, RunEventType.STEP_STARTED, f"step-{number}")
        return run_id

    async def happen(
        self, run_id: RunId, type_: RunEventType, step_id: str | None = None, attempt: int = 1
    ) -> None:
        draft = EventDraft(type_, step_id=step_id, logical_attempt=attempt)
        now = min(self.clock.now(), NOON)
        await self.store.write(run_log.append(run_id, "1", [draft], now))

    async def logged(self, *runs: RunId) -> list[RunEvent]:
        return [
            event
            for run_id in sorted(runs)
            for event in await self.store.read(run_log.events_after(run_id, 0, 100_000))
        ]

    def relay(self, *, max_attempts: int | None = None) -> BusRelay:
        return BusRelay(
            self.base, HISTORY, self.mirror, ME, is_dead, max_attempts=max_attempts,
            every_seconds=1.0,
        )  # fmt: skip

    async def record(self) -> bus.SinkRecord:
        (found,) = await self.keeper.sinks()
        return found

    async def compared(self, only: RunId | None = None) -> dict[RunId, RunComparison]:
        return {each.run_id: each async for each in self.verifier.compare(only)}
