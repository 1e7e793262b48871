"""What tests of the bus share: runs with events, relays over them, and what the log says."""

from collections.abc import Sequence
from datetime import datetime

from outrider.domain.cloud_events import event_id
from outrider.domain.ids import RunId, WorkerId
from outrider.domain.run_events import RunEventType
from outrider.engines.process_identity import is_dead
from outrider.kernel.bus.bus_keeper import BusKeeper
from outrider.kernel.bus.bus_relay import BusRelay
from outrider.kernel.transactions import bus, run_log
from outrider.kernel.transactions.run_log import EventDraft
from outrider.limits.kernel import Limits
from outrider.ports.bus import Sink
from outrider.ports.clock import Clock
from outrider.ports.store import Store
from outrider.secrets.store import LocalSecrets
from outrider.settings import SinkSettings
from outrider.sinks.directory import make_sink
from outrider.system import SystemClock, SystemIds
from outrider.testing.store_suite.workshop import NOON, Workshop
from tests.support.eventually import eventually
from tests.support.foundations import foundation

SINK = "audit"
ENOUGH = 100_000
ME = WorkerId("relay-one")
QUICK = Limits(bus_poll_seconds=0.01, store_backoff_seconds=0.05)


class Scene:
    """A database whose sink is registered before anything happens, so that everything is
    published."""

    def __init__(self, store: Store, clock: Clock | None = None, limits: Limits = QUICK) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.ids = SystemIds()
        self.limits = limits
        self.workshop = Workshop(store)
        self.keeper = BusKeeper(
            foundation(store, clock=self.clock, ids=self.ids, limits=limits), [SINK]
        )

    async def runs(self, count: int, events: int) -> list[RunId]:
        await self.keeper.register()
        runs = [await self.workshop.launch(1) for _ in range(count)]
        for run_id in runs:
            await self.happen(run_id, events)
        return runs

    async def happen(self, run_id: RunId, events: int, *, name: str = "step") -> None:
        drafts = [
            EventDraft(RunEventType.STEP_STARTED, step_id=f"{name}-{number}")
            for number in range(events)
        ]
        await self.store.write(run_log.append(run_id, "1", drafts, self.now()))

    def now(self) -> datetime:
        """Never after the relay's own clock, so that what happens is due at once."""
        return min(self.clock.now(), NOON)

    async def logged(self, *runs: RunId) -> dict[str, list[str]]:
        """Of each run the ids of its events, in order."""
        return {
            run_id: [
                event_id(event)
                for event in await self.store.read(run_log.events_after(run_id, 0, ENOUGH))
            ]
            for run_id in runs
        }

    def sink(self, url: str, *, secret: str | None = None, **given: float) -> Sink:
        settings = SinkSettings.model_validate({"url": url, "secret": secret, **given})
        return make_sink(SINK, settings, LocalSecrets(), self.clock, allow_private=True)

    def relay(
        self, sink: Sink, *, owner: WorkerId = ME, max_attempts: int | None = None
    ) -> BusRelay:
        return BusRelay(
            foundation(self.store, clock=self.clock, ids=self.ids, limits=self.limits),
            SINK,
            sink,
            owner,
            is_dead,
            max_attempts=max_attempts,
        )

    async def told_all(self, seconds: float = 60.0) -> None:
        """Returns once nothing waits for the sink."""

        async def is_so() -> bool:
            return not (await self.record()).waiting

        await eventually(is_so, seconds=seconds)

    async def record(self) -> bus.SinkRecord:
        (found,) = await self.keeper.sinks()
        return found


def by_run(ids: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for each in ids:
        found.setdefault(each.partition("/")[0], []).append(each)
    return found
