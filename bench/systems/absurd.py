"""absurd: tasks spawned one by one, as its SDK does, and claimed in batches by worker processes."""

import asyncio
import signal
from importlib.metadata import version
from typing import Any

import psycopg
from absurd_sdk import Absurd
from absurdctl import BUNDLED_SCHEMA_SQL

from systems.child import Request, read_request, tell_start
from systems.crew import ProcessCrew, is_worker, wait_for_go, worker_request
from systems.measures import measure

QUEUE = "bench"
# Its SDK (`start_worker`): `batch_size` claims several at once, `poll_interval` is the pause when
# nothing is due; it does not listen, so a short pause is all that helps latency.
BATCH = 100
POLL_SECONDS = 0.005


class AbsurdSystem:
    version = version("absurd-sdk")

    def __init__(self, request: Request) -> None:
        self._request = request

    async def prepare(self) -> None:
        self._connection = psycopg.connect(self._request.database, autocommit=True)
        self._connection.execute(BUNDLED_SCHEMA_SQL.encode())
        self._app = Absurd(self._request.database, queue_name=QUEUE)
        self._app.create_queue(QUEUE)

    async def fill_terminal(self, rows: int) -> None:
        assert not rows

    async def enqueue(self, count: int) -> None:
        for _ in range(count):
            self._app.spawn("noop", {"to": "+447700900123"}, queue=QUEUE)

    async def done(self) -> int:
        found = self._connection.execute(
            f"SELECT count(*) FROM absurd.t_{QUEUE} WHERE state = 'completed'"
        ).fetchone()
        assert found is not None
        return int(found[0])

    async def recorded(self) -> int:
        return await self.done()

    async def enqueue_one(self, number: int) -> None:
        self._app.spawn("noop", {"to": f"+4477{number:08d}"}, queue=QUEUE)

    def crew(self) -> ProcessCrew:
        return ProcessCrew("systems.absurd", self._request)

    async def close(self) -> None:
        self._app.close()
        self._connection.close()


def work(request: Request) -> None:
    app = Absurd(request.database, queue_name=QUEUE)

    @app.register_task(name="noop")
    def noop(_params: Any, _context: Any) -> None:
        tell_start()

    signal.signal(signal.SIGTERM, lambda *_: app.stop_worker())
    wait_for_go()
    app.start_worker(batch_size=BATCH, poll_interval=POLL_SECONDS)


def main() -> None:
    if is_worker():
        work(worker_request())
    else:
        request = read_request()
        asyncio.run(measure(AbsurdSystem(request), request))


if __name__ == "__main__":
    main()
