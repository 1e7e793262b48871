"""PgQueuer end to end: enqueue in batches, drain in one process with a large batch size."""

import logging
import time

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BATCH = 500
POOL_CONNECTIONS = 8


async def pgqueuer_end_to_end(database_url: str, count: int) -> float:
    """Seconds to enqueue and drain `count` no-op jobs; PgQueuer logs each job's end, as we do."""
    logging.getLogger("pgqueuer").setLevel(logging.WARNING)
    done = 0
    async with asyncpg.create_pool(database_url, min_size=1, max_size=POOL_CONNECTIONS) as pool:
        driver = AsyncpgPoolDriver(pool)
        queries = Queries(driver)
        await queries.install()
        queuer = PgQueuer(driver)

        @queuer.entrypoint("noop")
        async def noop(_job: Job) -> None:
            nonlocal done
            done += 1

        began = time.perf_counter()
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start)
            await queries.enqueue(["noop"] * size, [b"+447700900123"] * size, [0] * size)
        await queuer.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
        took = time.perf_counter() - began
    assert done == count, f"PgQueuer handled {done} of {count}"
    return took
