"""A third engine: a class, a function that makes it and one line in the table are all it takes.

This one is notified of work through a queue in memory, and its worker does the jobs of that work.
Work that it was not notified of, or has forgotten, is recovered as for any engine that does not
poll.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outrider.bootstrap import open_outrider
from outrider.domain.errors import EngineUnavailable
from outrider.domain.ids import DEFAULT_TENANT, JobId, RunId, TenantId
from outrider.domain.signals import Signal
from outrider.engines.parts import EngineParts
from outrider.engines.table import ENGINES
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions.work import outlook
from outrider.ports.engine import Engine, Jobs, Stalled, Work
from outrider.settings import Settings
from outrider.testing.engine_suite import EngineBench, EngineConformance, engine_bench
from outrider.testing.engine_suite.lanes import judged, submit

WINDOW_JOBS = 10


class QueueEngine(Engine):
    polls_queue = False

    def __init__(self, foundation: Foundation) -> None:
        self._foundation = foundation
        self._told: asyncio.Queue[Work] = asyncio.Queue()
        self.calls: list[str] = []

    async def start(self, run: Work) -> None:
        await self._told.put(run)

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:  # noqa: ARG002
        await self._told.put(run)

    async def recover(self, stalled: Sequence[Stalled]) -> Sequence[Stalled]:
        for each in stalled:
            await self._told.put(each.work)
        return stalled

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        return f"queue/{tenant_id}/{run_id}"

    @asynccontextmanager
    async def worker(self, jobs: Jobs) -> AsyncIterator["QueueWorker"]:
        yield QueueWorker(self._foundation, self._told, jobs)

    async def check(self) -> None:
        self.calls.append("check")

    async def close(self) -> None:
        self.calls.append("close")


class QueueWorker:
    def __init__(self, foundation: Foundation, told: asyncio.Queue[Work], jobs: Jobs) -> None:
        self._foundation = foundation
        self._told = told
        self._jobs = jobs
        self._places = asyncio.Semaphore(foundation.limits.jobs_in_parallel)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            listening = group.create_task(self._listen(group))
            await self._stopping.wait()
            listening.cancel()

    async def _listen(self, group: asyncio.TaskGroup) -> None:
        while True:
            group.create_task(self._move(await self._told.get()))

    async def _move(self, work: Work) -> None:
        """Do its due jobs repeatedly until there are none."""
        while not self._stopping.is_set():
            now = self._foundation.clock.now()
            seen = await self._foundation.store.read(outlook(work.kind, work.id, WINDOW_JOBS, now))
            if not seen.due:
                return
            await asyncio.gather(*(self._process(job_id) for job_id in seen.due))

    async def _process(self, job_id: JobId) -> None:
        async with self._places:
            if not self._stopping.is_set():
                await self._jobs.process(job_id)


def make_engine(parts: EngineParts) -> Engine:
    return QueueEngine(parts.foundation)


class ServerlessEngine(QueueEngine):
    async def check(self) -> None:
        raise EngineUnavailable("its server does not answer")


def make_serverless(parts: EngineParts) -> Engine:
    return ServerlessEngine(parts.foundation)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line."""
    monkeypatch.setitem(ENGINES, "queue", f"{__name__}:make_engine")


@pytest.fixture
async def bench(database: str, tmp_path: Path) -> AsyncIterator[EngineBench]:
    settings = Settings(database_url=database, engine="queue")
    async with engine_bench(settings, tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
class TestThirdEngine(EngineConformance):
    """It passes the public suite, as every engine must."""


async def test_a_campaign_and_a_single_message_are_sent_by_an_engine_that_was_only_registered(
    bench: EngineBench,
) -> None:
    run_id = await bench.launched(45)
    async with bench.at_work():
        assert (await bench.ended(run_id)).sent == 45
        await submit(bench, "intent-0")
        assert await judged(bench, "intent-0") == ["ACCEPTED"]
    assert set(bench.sandbox.deliveries.values()) == {1}
    started = (await bench.events(run_id))[1]
    assert started.payload["engineRunRef"] == f"queue/{DEFAULT_TENANT}/{run_id}"


async def test_an_engine_is_asked_whether_it_is_reachable_and_notified_at_shutdown(
    tmp_path: Path,
) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'outrider.db'}", engine="queue")
    async with open_outrider(settings) as outrider:
        await outrider.reach_engine()
    assert isinstance(outrider.engine, QueueEngine)
    assert outrider.engine.calls == ["check", "close"]


async def test_an_engine_that_cannot_be_reached_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENGINES, "queue", f"{__name__}:make_serverless")
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'outrider.db'}", engine="queue")
    async with open_outrider(settings) as outrider:
        with pytest.raises(EngineUnavailable, match="its server does not answer"):
            await outrider.reach_engine()
