"""PgQueuer: enqueued in batches, drained by processes that take large batches."""

import asyncio
import logging
import signal
from importlib.metadata import version

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from systems.child import Request, read_request, tell_start
from systems.crew import ProcessCrew, is_worker, wait_for_go, worker_request
from systems.measures import measure

ENQUEUE_BATCH = 500
# Its README ("Batch operations"): thousands of jobs per round trip, for the most throughput.
BATCH = 500
CONNECTIONS = 8
PAYLOAD = b'{"to": "+447700900123", "message": "Hi"}'


class PgQueuerSystem:
    version = version("pgqueuer")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._before = 0

    async def prepare(self) -> None:
        self._pool = await asyncpg.create_pool(self._request.database, min_size=1, max_size=2)
        self._queries = Queries(AsyncpgPoolDriver(self._pool))
        await self._queries.install()

    async def fill_terminal(self, rows: int) -> None:
        """Its log is what it keeps of jobs that have ended."""
        if rows:
            await self._pool.execute(
                "INSERT INTO pgqueuer_log (created, job_id, status, priority, entrypoint,"
                " aggregated) SELECT now(), number, 'successful', 0, 'noop', true"
                " FROM generate_series(-$1::bigint, -1) AS number",
                rows,
                timeout=3_600,
            )
            await self._pool.execute("VACUUM (ANALYZE) pgqueuer_log", timeout=3_600)
        await self._forget()

    async def enqueue(self, count: int) -> None:
        for start in range(0, count, ENQUEUE_BATCH):
            size = min(ENQUEUE_BATCH, count - start)
            await self._queries.enqueue(["noop"] * size, [PAYLOAD] * size, [0] * size)
        if self._request.measure in ("phases", "waiting"):
            await self._forget()

    async def _forget(self) -> None:
        """Nothing has ended so far: the current log need not be read at every poll."""
        self._before = await self._pool.fetchval("SELECT coalesce(max(id), 0) FROM pgqueuer_log")

    async def done(self) -> int:
        return int(
            await self._pool.fetchval(
                "SELECT count(*) FROM pgqueuer_log WHERE status = 'successful' AND id > $1",
                self._before,
            )
        )

    async def recorded(self) -> int:
        return await self.done()

    async def enqueue_one(self, number: int) -> None:
        await self._queries.enqueue(["noop"], [b"%d" % number], [0])

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.pgqueuer", self._request)

    async def close(self) -> None:
        self._pool.terminate()


async def work(request: Request) -> None:
    async with asyncpg.create_pool(request.database, min_size=2, max_size=CONNECTIONS) as pool:
        queuer = PgQueuer(AsyncpgPoolDriver(pool))

        @queuer.entrypoint("noop")
        async def noop(_job: Job) -> None:
            tell_start()

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, queuer.shutdown.set)
        wait_for_go()
        await queuer.run(batch_size=BATCH)


async def main() -> None:
    if is_worker():
        await work(worker_request())
    else:
        request = read_request()
        await measure(PgQueuerSystem(request), request)


if __name__ == "__main__":
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    uvloop.run(main())
