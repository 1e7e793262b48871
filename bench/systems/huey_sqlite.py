"""Huey on SQLite: fsync on, results kept, the consumer in a separate process."""

import asyncio
import logging
import sqlite3
from importlib.metadata import version
from typing import Any

from huey import SqliteHuey

from systems.child import Request, read_request, tell_start
from systems.crew import ProcessCrew, is_worker, wait_for_go, worker_request
from systems.measures import measure

WORKERS = 1
"""Threads, "the safest choice" in its own words; more would wait for the one writer of the file."""
# Its consumer's options: the delay is the time to wait when polling, and backs off to `max_delay`;
# for low latency both are short.
POLL_SECONDS = 0.005


def make_huey(folder: str) -> tuple[SqliteHuey, Any]:
    huey = SqliteHuey("bench", filename=f"{folder}/huey.db", fsync=True, results=True)

    @huey.task()
    def noop(to: str) -> str:
        tell_start()
        return to

    return huey, noop


class HueySystem:
    version = version("huey")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._huey, self._noop = make_huey(request.folder)

    async def prepare(self) -> None:
        self._connection = sqlite3.connect(f"{self._request.folder}/huey.db")

    async def fill_terminal(self, rows: int) -> None:
        assert not rows

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._noop("+447700900123")

    async def done(self) -> int:
        """A stored result is the record of an end."""
        return int(self._connection.execute("SELECT count(*) FROM kv").fetchone()[0])

    async def recorded(self) -> int:
        return await self.done()

    async def enqueue_one(self, number: int) -> None:
        self._noop(f"+4477{number:08d}")

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.huey_sqlite", self._request)

    async def close(self) -> None:
        self._connection.close()


def work(request: Request) -> None:
    huey, _ = make_huey(request.folder)
    consumer = huey.create_consumer(
        workers=WORKERS, initial_delay=POLL_SECONDS, max_delay=POLL_SECONDS, periodic=False
    )
    wait_for_go()
    consumer.run()


def main() -> None:
    if is_worker():
        work(worker_request())
    else:
        request = read_request()
        asyncio.run(measure(HueySystem(request), request))


if __name__ == "__main__":
    logging.getLogger("huey").setLevel(logging.ERROR)
    main()
