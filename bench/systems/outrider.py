"""Outrider itself: SQLite or Postgres, its own engine or Temporal, one gateway or another.

One worker lives in the process that launches, as in `outrider serve`; more are separate processes.
A campaign is what is enqueued; a single message is an intent.
"""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import apsw
import asyncpg
import structlog
import uvloop

from outrider import __version__
from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.kernel.submissions.submission_manager import Submission
from outrider.ports.engine import Worker
from outrider.ports.stages import Stage, Unobserved
from outrider.settings import Settings, TargetSettings
from outrider.system import settle_process
from outrider.testing.launches import launch, message, registry, target
from systems.child import Request, read_request, tell_start
from systems.crew import Crew, ProcessCrew, is_worker, wait_for_go, worker_request
from systems.measures import measure
from systems.outrider_history import fill_terminal

BATCH_ITEMS = 500
CHANNELS = {"noop": Channel.SMS, "sms": Channel.SMS, "smtp": Channel.EMAIL}

DONE = "SELECT coalesce(sum(sent), 0) FROM job_queue WHERE run_id IS NOT NULL"
RECORDED = "SELECT count(*) FROM channel_outbox WHERE status = 'sent'"


class CallWatch(Unobserved):
    def before(self, stage: Stage) -> None:
        if stage is Stage.CALL:
            tell_start()


def settings(request: Request) -> Settings:
    gateway = request.options.get("gateway", "noop")
    url = {"sms": request.options.get("http"), "smtp": request.options.get("smtp")}.get(gateway)
    path = Path(request.folder, "registry.json")
    if not path.exists():
        path.write_bytes(registry(target("bench", gateway, url or "noop:")))
    engine = request.options.get("engine", "local")
    return Settings(
        database_url=request.database or f"sqlite:///{request.folder}/outrider.db",
        registry=path,
        artifacts=Path(request.folder, "artifacts"),
        spool=Path(request.folder, "spool"),
        # The sandbox remembers every reference; noop and smtp are unchanged.
        targets={"bench": TargetSettings(remembers_references="for_good")},
        engine="temporal" if engine == "temporal" else "local",
        temporal_address=request.server or "127.0.0.1:7233",
        temporal_task_queue=f"bench-{Path(request.folder).name}",
    )


def audience(prefix: str, count: int) -> Iterator[Recipient]:
    """Generated one by one, so that memory shows what Outrider needs, not the test data."""
    for number in range(count):
        yield recipient(
            f"{prefix}-{number}",
            email=f"{prefix}{number}@example.test",
            phone=f"+4477{number:08d}",
            attributes=f'{{"firstName":"Person {number}"}}',
        )


class InsideCrew:
    """One worker in this process."""

    def __init__(self, outrider: Outrider) -> None:
        self._outrider = outrider
        self._open = AsyncExitStack()
        self._worker: Worker | None = None
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._worker = await self._open.enter_async_context(
            self._outrider.worker(observer=CallWatch())
        )

    async def go(self) -> None:
        assert self._worker is not None
        settle_process()
        self._running = asyncio.create_task(self._worker.run())

    async def stop(self) -> None:
        if self._worker is not None and self._running is not None:
            self._worker.stop()
            await self._running
        await self._open.aclose()


class OutriderSystem:
    version = __version__

    def __init__(self, request: Request) -> None:
        self._request = request
        self._open = AsyncExitStack()
        self._launches = 0
        self._postgres: asyncpg.Connection[asyncpg.Record] | None = None

    async def prepare(self) -> None:
        self._outrider = await self._open.enter_async_context(
            open_outrider(settings(self._request))
        )
        await self._outrider.store.migrate()
        if self._request.database:
            self._postgres = await asyncpg.connect(self._request.database)
        else:
            self._sqlite = apsw.Connection(
                f"{self._request.folder}/outrider.db", flags=apsw.SQLITE_OPEN_READONLY
            )

    async def fill_terminal(self, rows: int) -> None:
        if rows:
            assert self._postgres is not None
            await fill_terminal(self._postgres, rows)

    async def enqueue(self, count: int) -> None:
        self._launches += 1
        gateway = self._request.options.get("gateway", "noop")
        await launch(
            self._outrider,
            [message(CHANNELS[gateway], "bench")],
            audience(f"lead{self._launches}", count),
            batch_size=BATCH_ITEMS,
        )

    async def done(self) -> int:
        return await self._ask(DONE)

    async def recorded(self) -> int:
        return await self._ask(RECORDED)

    async def enqueue_one(self, number: int) -> None:
        payload = {"to": f"+4477{number:08d}", "message": "Hi"}
        submission = Submission(f"intent-{number}", "bench", payload)
        _, is_new = await self._outrider.submissions.submit(DEFAULT_SCOPE, submission)
        assert is_new

    def crew(self) -> Crew:
        beside = self._request.options.get("worker") == "beside" or self._request.workers > 1
        if beside:
            return ProcessCrew("systems.outrider", self._request)
        return InsideCrew(self._outrider)

    async def close(self) -> None:
        if self._postgres is not None:
            await self._postgres.close()
        await self._open.aclose()

    async def _ask(self, sql: str) -> int:
        if self._postgres is not None:
            return int(await self._postgres.fetchval(sql))
        return int(next(iter(self._sqlite.execute(sql)))[0])


async def work(request: Request) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with (
        open_outrider(settings(request)) as outrider,
        outrider.worker(observer=CallWatch()) as worker,
    ):
        wait_for_go()
        settle_process()
        running = asyncio.create_task(worker.run())
        await stop.wait()
        worker.stop()
        await running


async def main(request: Request) -> None:
    await measure(OutriderSystem(request), request)


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    uvloop.run(work(worker_request()) if is_worker() else main(read_request()))
