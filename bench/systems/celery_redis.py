"""Celery with Redis: prefork workers, results kept in Redis, acknowledged after the work."""

import asyncio
import os
import subprocess
import sys
import time
from importlib.metadata import version
from typing import Any

import redis
from celery import Celery

from systems.child import Request, read_request, tell_start
from systems.measures import measure

SERVER_VARIABLE = "BENCH_REDIS"
QUEUE = "bench"
RESULTS_DATABASE = 1
READY_SECONDS = 60.0
STOP_SECONDS = 20.0

_socket = os.environ.get(SERVER_VARIABLE, "")
app = Celery(
    "bench",
    broker=f"redis+socket://{_socket}?virtual_host=0",
    backend=f"redis+socket://{_socket}?virtual_host={RESULTS_DATABASE}",
)
app.conf.update(
    task_default_queue=QUEUE,
    # Its guide ("Optimizing"): lots of short tasks want a large multiplier, "say 64, or 128".
    worker_prefetch_multiplier=64,
    # Without it a killed worker loses what it had taken, unlike every other system here.
    task_acks_late=True,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(to: str) -> str:
    tell_start()
    return to


class CeleryCrew:
    """One `celery worker` with as many child processes as the request has workers.

    It begins on an unused queue; `go` has it consume the right one.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs here
            [
                sys.executable, "-P", "-m", "celery", "-A", "systems.celery_redis", "worker",
                "--pool", "prefork", "--concurrency", str(self._workers), "--queues", "unused",
                "--loglevel", "ERROR", "--without-gossip", "--without-mingle",
            ],
            stdin=subprocess.DEVNULL, stdout=sys.stderr,
        )  # fmt: skip
        until = time.monotonic() + READY_SECONDS
        while not app.control.ping(timeout=0.5):
            assert self._process.poll() is None, "the worker has ended"
            assert time.monotonic() < until, "the worker does not answer"

    async def go(self) -> None:
        answers: Any = app.control.add_consumer(QUEUE, reply=True, timeout=5, limit=1)
        assert answers, "the worker did not take the queue"

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


class CelerySystem:
    version = version("celery")

    def __init__(self, request: Request) -> None:
        self._request = request

    async def prepare(self) -> None:
        self._results = redis.Redis(unix_socket_path=self._request.server, db=RESULTS_DATABASE)
        redis.Redis(unix_socket_path=self._request.server).flushall()

    async def fill_terminal(self, rows: int) -> None:
        assert not rows

    async def enqueue(self, count: int) -> None:
        with app.producer_or_acquire() as producer:
            for _ in range(count):
                noop.apply_async(("+447700900123",), producer=producer)

    async def done(self) -> int:
        """A stored result is the record of an end; nothing else is in this database."""
        size: Any = self._results.dbsize()
        return int(size)

    async def recorded(self) -> int:
        return await self.done()

    async def enqueue_one(self, number: int) -> None:
        noop.delay(f"+4477{number:08d}")

    def crew(self) -> CeleryCrew:
        return CeleryCrew(self._request.workers)

    async def close(self) -> None:
        self._results.close()


if __name__ == "__main__":
    # The tasks belong to the module by its own name, which a worker imports too.
    given = read_request()
    os.environ[SERVER_VARIABLE] = given.server
    from systems import celery_redis

    asyncio.run(measure(celery_redis.CelerySystem(given), given))
