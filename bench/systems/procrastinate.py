"""Procrastinate: deferred in batches, worked on by asynchronous workers with LISTEN."""

import asyncio
import logging
import signal
from importlib.metadata import version

import procrastinate
import uvloop

from systems.child import Request, read_request, tell_start
from systems.crew import ProcessCrew, is_worker, wait_for_go, worker_request
from systems.measures import measure

DEFER_BATCH = 500
# Its reference (`run_worker_async`): `concurrency` is how many asynchronous jobs a worker runs side
# by side, and with `listen_notify`, which is on, polling is only what it falls back to.
CONCURRENCY = 20


def make_app(database: str) -> procrastinate.App:
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(
            conninfo=database, min_size=1, max_size=CONCURRENCY + 2
        )
    )

    @app.task(name="noop")
    async def noop(to: str) -> None:  # noqa: ARG001
        tell_start()

    return app


class ProcrastinateSystem:
    version = version("procrastinate")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._app = make_app(request.database)

    async def prepare(self) -> None:
        await self._app.open_async()
        await self._app.schema_manager.apply_schema_async()

    async def fill_terminal(self, rows: int) -> None:
        assert not rows

    async def enqueue(self, count: int) -> None:
        task = self._app.tasks["noop"]
        for start in range(0, count, DEFER_BATCH):
            size = min(DEFER_BATCH, count - start)
            await task.batch_defer_async(*({"to": "+447700900123"} for _ in range(size)))

    async def done(self) -> int:
        answer = await self._app.connector.execute_query_one_async(
            "SELECT count(*) AS ended FROM procrastinate_jobs WHERE status = 'succeeded'"
        )
        return int(answer["ended"])

    async def recorded(self) -> int:
        return await self.done()

    async def enqueue_one(self, number: int) -> None:
        await self._app.tasks["noop"].defer_async(to=f"+4477{number:08d}")

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.procrastinate", self._request)

    async def close(self) -> None:
        await self._app.close_async()


async def work(request: Request) -> None:
    app = make_app(request.database)
    async with app.open_async():
        wait_for_go()
        running = asyncio.create_task(
            app.run_worker_async(concurrency=CONCURRENCY, install_signal_handlers=False)
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait([running])


async def main() -> None:
    if is_worker():
        await work(worker_request())
    else:
        request = read_request()
        await measure(ProcrastinateSystem(request), request)


if __name__ == "__main__":
    logging.getLogger("procrastinate").setLevel(logging.ERROR)
    uvloop.run(main())
