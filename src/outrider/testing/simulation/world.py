"""One world: a database, providers, processes that come and go, and what was found wrong in it."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from itertools import chain, repeat
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

from outrider import plugins
from outrider.bootstrap import Outrider
from outrider.bootstrap import bus as bus_wiring
from outrider.bootstrap import control as control_wiring
from outrider.bootstrap import delivery as delivery_wiring
from outrider.bootstrap import engines as engine_wiring
from outrider.bootstrap import work as work_wiring
from outrider.bootstrap import worker as worker_wiring
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import Scope, WorkerId
from outrider.kernel.work.database_clock import DatabaseClock
from outrider.limits.kernel import Limits
from outrider.ports.presence import Presence
from outrider.ports.renderer import Rendered, RenderProblem
from outrider.settings import Settings, SinkSettings, TargetSettings
from outrider.testing.launches import registry, target
from outrider.testing.simulation.gateways import SimulatedGateways
from outrider.testing.simulation.memory_store import MemoryStore, StoreFaults, new_database
from outrider.testing.simulation.process import Process, ProcessClock, SeededIds
from outrider.testing.simulation.providers import REMEMBERS, Provider
from outrider.testing.simulation.sink import MemorySink, Received
from outrider.testing.simulation.virtual_time import DatabaseTime
from outrider.testing.simulation.witness import Witness

Answer = TypeVar("Answer")

RESTART_SECONDS = (0.1, 3.0)
RETRY_SECONDS = 0.5
END_ROUNDS = 50
LIMITS = Limits(
    lease_seconds=6.0,
    stale_lock_seconds=20.0,
    heartbeat_seconds=2.0,
    permit_look_seconds=0.5,
    idle_poll_seconds=1.5,
    rescue_interval_seconds=3.0,
    expire_seconds=3.0,
    doubt_poll_seconds=1.5,
    reconcile_runs_seconds=3.0,
    rollout_look_seconds=3.0,
    refusals_seconds=30.0,
    router_poll_seconds=2.0,
    router_lease_seconds=4.0,
    digester_seconds=3.0,
    digester_lease_seconds=6.0,
    bus_poll_seconds=3.0,
    bus_lease_seconds=6.0,
    doubt_cap_seconds=8.0,
    # What these loops do is not judged here, and their polls would be most of the work.
    projector_seconds=5.0,
    progress_seconds=5.0,
    watcher_seconds=15.0,
    message_queue_poll_seconds=10.0,
    registry_look_seconds=20.0,
    spool_seconds=10.0,
    worker_beat_seconds=4.0,
    stop_sweep_seconds=20.0,
)
"""Shorter leases than real ones, so that less time passes in which nothing happens."""

SINK = "memory"
_entry_points = cache(entry_points)
_running: ContextVar[Process] = ContextVar("running")
"""Whose tasks these are."""


def _this_worker() -> WorkerId:
    return _running.get().worker_id


class PlainRenderer:
    """Texts without variables, in this process."""

    async def start(self) -> None:
        pass

    async def render(
        self,
        scope: Scope,  # noqa: ARG002
        subject: str | None,
        body: str,
        attributes: Sequence[str],
        *,
        html: bool,  # noqa: ARG002
    ) -> list[Rendered | RenderProblem]:
        return [Rendered(subject, body)] * len(attributes)

    async def close(self) -> None:
        pass


@dataclass
class World:
    seed: int
    folder: Path
    providers: dict[str, Provider]
    sees_processes: bool
    """Whether workers can see that another's process is gone; else they wait for its lease."""
    store_faults: StoreFaults = field(default_factory=StoreFaults)
    findings: list[str] = field(default_factory=list)
    kills: int = 0

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.random = random.Random(f"{self.seed} world")
        self.database_time = DatabaseTime(self._loop)
        self.database = new_database(self.database_time.text)
        self._ids = SeededIds(self.seed, self._loop)
        self._processes: dict[str, Process] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._settings = self._written_settings()
        outside = MemoryStore(self.database, Process("witness", self.seed), StoreFaults())
        self.witness = Witness(self.database, outside.at_once, self.findings)
        self.received = Received(self.seed, self.find)
        for provider in self.providers.values():
            provider.on_begin = self.witness.begins
            provider.on_end = self.witness.ends
            provider.on_take.append(self.witness.takes)

    def find(self, finding: str) -> None:
        self.witness.find(finding)

    def _written_settings(self) -> Settings:
        path = self.folder / "registry.json"
        entries = [
            target(name, each.gateway_type, _url(each), maxAttempts=20)
            for name, each in self.providers.items()
        ]
        path.write_bytes(registry(*entries))
        targets = {
            name: TargetSettings(remembers_references=REMEMBERS[each.kind])
            for name, each in self.providers.items()
            if each.kind in REMEMBERS
        }
        return Settings(
            database_url="sqlite:///memory", registry=path, targets=targets,
            spool=self.folder / "spool", artifacts=self.folder / "artifacts",
            bus={SINK: SinkSettings(url="nats://sink.invalid:4222")},
        )  # fmt: skip

    def process(self, name: str, fuse: int | None = None) -> Process:
        made = self._processes[name] = Process(name, self.seed, fuse)
        return made

    def outrider(self, process: Process) -> Outrider:
        _running.set(process)
        store = MemoryStore(self.database, process, self.store_faults, self.witness.committed)
        gateways = SimulatedGateways(self.providers, process)
        machine = ProcessClock(process, self._loop)
        clock = DatabaseClock(machine, store, self._ids, LIMITS, process.worker_id)
        renderer = PlainRenderer()
        made = Outrider(
            self._settings, LIMITS, store, gateways, clock, self._ids, renderer, renderer
        )
        made.sinks = {SINK: MemorySink(self.received, process)}
        return made

    def begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.create_task(work)
        # The loop itself would forget it.
        self._under_way.add(task)
        return task

    async def end(self) -> None:
        """Nobody may be left to continue when this loop is gone."""
        for process in self._processes.values():
            process.is_over = True
        for _ in range(END_ROUNDS):
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            await asyncio.sleep(0)

    def living(self) -> list[Process]:
        return [each for each in self._processes.values() if not each.died.is_set()]

    def presence(self, worker_id: str) -> Presence:
        found = self._processes.get(worker_id)
        if found is None or not self.sees_processes:
            return Presence.UNKNOWN
        return Presence.GONE if found.died.is_set() else Presence.RUNS

    @contextmanager
    def wired(self) -> Iterator[None]:
        """Workers made here see the world's processes, not the machine's."""

        def is_dead(worker_id: str) -> bool:
            return self.presence(worker_id) is Presence.GONE

        with ExitStack() as wiring:
            for place in (worker_wiring, delivery_wiring):
                wiring.enter_context(patch.object(place, "presence", self.presence))
            for place in (worker_wiring, bus_wiring):
                wiring.enter_context(patch.object(place, "is_dead", is_dead))
            for place in (work_wiring, bus_wiring, control_wiring, engine_wiring):
                wiring.enter_context(patch.object(place, "this_worker", _this_worker))
            wiring.enter_context(patch.object(worker_wiring, "RenderPool", PlainRenderer))
            wiring.enter_context(patch.object(plugins, "entry_points", _entry_points))
            yield

    async def keep_working(self, name: str, fuses: Sequence[int]) -> None:
        """A worker under a supervisor: started again after each death. At last it lives on."""
        for life, fuse in enumerate(chain(fuses, repeat(None))):
            process = self.process(f"{name}-{life}", fuse)
            work = asyncio.create_task(self._work(process))
            died = asyncio.create_task(process.died.wait())
            await asyncio.wait((work, died), return_when=asyncio.FIRST_COMPLETED)
            if not process.died.is_set():
                process.kill()
                self._note_end(name, work)
            self.kills += fuse is not None
            await asyncio.sleep(self.random.uniform(*RESTART_SECONDS))

    async def _work(self, process: Process) -> None:
        outrider = self.outrider(process)
        async with outrider.worker(worker_id=process.worker_id) as worker:
            await worker.run()

    def _note_end(self, name: str, work: "asyncio.Task[None]") -> None:
        """A worker may give up while its database is away; nothing else ends it."""
        error = work.exception()
        if not _is_about_the_store(error):
            self.findings.append(f"{name} ended by itself: {error!r}")

    def rows(self, sql: str, *given: object) -> list[Any]:
        return self.database.execute(sql, given).fetchall()


def _url(provider: Provider) -> str:
    scheme = "smtp" if provider.gateway_type == "smtp" else "http"
    return f"{scheme}://{provider.name}.invalid"


def _is_about_the_store(error: BaseException | None) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_about_the_store, error.exceptions))
    return isinstance(error, StoreUnavailable)


async def retried(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """As a client does whose server answers 503."""
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            await asyncio.sleep(RETRY_SECONDS)
