"""DBOS: a workflow for each message, enqueued by its client and taken from a queue by executors."""

import asyncio
import os
import threading
from importlib.metadata import version

import psycopg
import sqlalchemy
from dbos import DBOS, DBOSClient, DBOSConfig, run_dbos_database_migrations

from systems.child import Request, read_request, tell_start
from systems.crew import ProcessCrew, is_worker, wait_for_go, worker_request
from systems.measures import measure

APPLICATION = "bench"
QUEUE = "bench"
ENQUEUE_BATCH = 500
# Its reference (`register_queue`): smaller values of `polling_interval_sec` mean less latency and
# more load; `worker_concurrency` counts per process, if each has its own `executor_id`.
WORKER_CONCURRENCY = 50
POLL_SECONDS = 0.02


class DbosSystem:
    version = version("dbos")

    def __init__(self, request: Request) -> None:
        self._request = request

    async def prepare(self) -> None:
        run_dbos_database_migrations(system_database_url=self._request.database)
        self._client = DBOSClient(
            system_database_url=self._request.database, application_name=APPLICATION
        )
        await self._client.register_queue_async(
            QUEUE, worker_concurrency=WORKER_CONCURRENCY, polling_interval_sec=POLL_SECONDS
        )
        url = self._request.database.replace("postgresql://", "postgresql+psycopg://")
        self._engine = sqlalchemy.create_engine(url)
        self._connection = psycopg.connect(self._request.database, autocommit=True)

    async def fill_terminal(self, rows: int) -> None:
        assert not rows

    async def enqueue(self, count: int) -> None:
        for start in range(0, count, ENQUEUE_BATCH):
            with self._engine.begin() as connection:
                for _ in range(min(ENQUEUE_BATCH, count - start)):
                    self._client.enqueue_in_transaction(
                        connection,
                        {"workflow_name": "noop", "queue_name": QUEUE},
                        "+447700900123",
                    )

    async def done(self) -> int:
        found = self._connection.execute(
            "SELECT count(*) FROM dbos.workflow_status WHERE status = 'SUCCESS'"
        ).fetchone()
        assert found is not None
        return int(found[0])

    async def recorded(self) -> int:
        return await self.done()

    async def enqueue_one(self, number: int) -> None:
        self._client.enqueue({"workflow_name": "noop", "queue_name": QUEUE}, f"+4477{number:08d}")

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.dbos", self._request)

    async def close(self) -> None:
        self._client.destroy()
        self._engine.dispose()
        self._connection.close()


def work(request: Request) -> None:
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_url": request.database,
        "log_level": "ERROR",
        "executor_id": f"bench-{os.getpid()}",
    }
    DBOS(config=config)

    @DBOS.workflow(name="noop")
    def noop(_to: str) -> None:
        tell_start()

    wait_for_go()
    DBOS.launch()
    threading.Event().wait()


def main() -> None:
    if is_worker():
        work(worker_request())
    else:
        request = read_request()
        asyncio.run(measure(DbosSystem(request), request))


if __name__ == "__main__":
    main()
