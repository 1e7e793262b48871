"""Single messages while a campaign runs: how long until a realtime call begins, idle and loaded.

On SQLite in one process, as in the embedded default; on Postgres one separate worker process does
the work. The campaign goes through a batch target to a no-op gateway, which is the hardest load
there is: nothing in it ever waits. `SAMPLES=500` takes more samples; `ROUNDS=5` alternates idle and
loaded more often. Postgres is used as it is after its first checkpoints, when it writes over old
files of its log: until then every commit waits, about once a second, for a new file of 16 MB.
"""

import asyncio
import logging
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import structlog
import uvloop

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.kernel.submissions.submission_manager import Submission
from outrider.settings import Settings
from outrider.system import settle_process
from outrider.testing.launches import launch, message, registry, target, until_terminal
from outrider.testing.postgres import PrivatePostgres, create_database

SAMPLES = int(os.environ.get("SAMPLES", "200"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
CAMPAIGN = 60_000
REST_SECONDS = (0.02, 0.06)
LOOK_SECONDS = 0.005
LAUNCHED: list[RunId] = []


def settings(folder: Path, url: str) -> Settings:
    path = folder / "registry.json"
    path.write_bytes(
        registry(
            target("realtime", "noop", "noop:", mode="realtime"),
            target("batch", "noop", "noop:", mode="batch"),
        )
    )
    return Settings(
        database_url=url, registry=path, artifacts=folder / "artifacts", spool=folder / "spool"
    )


def people(prefix: str) -> Iterator[Recipient]:
    """One by one on demand: generated at once, they would hold up the event loop."""
    return (
        recipient(f"{prefix}-{n}", phone=f"+4477{n:08d}", attributes='{"firstName": "Ann"}')
        for n in range(CAMPAIGN)
    )


async def latencies_ms(outrider: Outrider, prefix: str) -> list[float]:
    """From before a message is submitted until its attempt was opened, according to the ledger: the
    call of a no-op gateway begins at once then."""
    took = []
    for number in range(SAMPLES):
        await asyncio.sleep(random.uniform(*REST_SECONDS))
        payload = {"to": f"+4477{number:08d}", "message": "Hi"}
        began = time.time()
        intent_id = f"{prefix}-{number}"
        await outrider.submissions.submit(DEFAULT_SCOPE, Submission(intent_id, "realtime", payload))
        while True:
            _, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
            if attempts:
                break
            await asyncio.sleep(LOOK_SECONDS)
        took.append((attempts[0].opened_at.timestamp() - began) * 1_000)
    return took


def told(name: str, took: list[float]) -> tuple[float, float]:
    ordered = sorted(took)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99)]
    print(
        f"  {name:<10}{len(took):>6} messages  p50 {p50:>7.1f} ms  p99 {p99:>7.1f} ms", flush=True
    )
    return p50, p99


@asynccontextmanager
async def worker_inside(outrider: Outrider) -> AsyncIterator[None]:
    async with outrider.worker() as worker:
        running = asyncio.create_task(worker.run())
        settle_process()
        yield
        worker.stop()
        await running


@asynccontextmanager
async def worker_beside(url: str, folder: Path) -> AsyncIterator[None]:
    worker = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "work", url, str(folder)
    )
    try:
        yield
    finally:
        worker.terminate()
        await worker.wait()


async def measure(url: str, folder: Path) -> None:
    beside = not url.startswith("sqlite")
    print("Postgres, a worker process" if beside else "SQLite, all in one process")
    configured = settings(folder, url)
    idle: list[float] = []
    loaded: list[float] = []
    async with open_outrider(configured) as outrider:
        await outrider.store.migrate()
        async with worker_beside(url, folder) if beside else worker_inside(outrider):
            await latencies_ms(outrider, "warm-up")
            for number in range(ROUNDS):
                idle += await latencies_ms(outrider, f"idle-{number}")
                load = asyncio.create_task(keep_busy(outrider, number))
                await asyncio.sleep(1.0)
                loaded += await latencies_ms(outrider, f"loaded-{number}")
                load.cancel()
                await asyncio.gather(load, return_exceptions=True)
                await until_idle(outrider)
    alone, busy = told("idle", idle), told("loaded", loaded)
    print(f"  loaded / idle: p50 {busy[0] / alone[0]:.2f}, p99 {busy[1] / alone[1]:.2f}")


async def fill_log(url: str) -> None:
    """Let the server have files of its log that it can use again."""
    connection = await asyncpg.connect(url)
    for statement in (
        "ALTER SYSTEM SET min_wal_size = '1GB'",
        "SELECT pg_reload_conf()",
        "CREATE TABLE filler AS SELECT repeat(md5(n::text), 60) FROM generate_series(1, 300000) n",
        "DROP TABLE filler",
        "CHECKPOINT",
    ):
        await connection.execute(statement)
    await connection.close()


async def until_idle(outrider: Outrider) -> None:
    """The launched campaign ends, so that the next round begins without it."""
    for run_id in LAUNCHED:
        await until_terminal(outrider, run_id, seconds=300)
    LAUNCHED.clear()


async def keep_busy(outrider: Outrider, number: int) -> None:
    """Campaigns one after another, until cancelled."""
    for each in range(1_000):
        prefix = f"lead-{number}-{each}"
        messages = [message(Channel.SMS, "batch")]
        LAUNCHED.append(await launch(outrider, messages, people(prefix), batch_size=500))
        await asyncio.sleep(1.5)


async def work(url: str, folder: Path) -> None:
    async with (
        open_outrider(settings(folder, url)) as outrider,
        outrider.worker() as worker,
    ):
        settle_process()
        await worker.run()


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as made:
        folder = Path(made)
        await measure(f"sqlite:///{folder}/outrider.db", folder)
        postgres = PrivatePostgres(folder / "postgres")
        try:
            url = await create_database(postgres.url)
            await fill_log(url)
            await measure(url, folder)
        finally:
            postgres.close()


if __name__ == "__main__":
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    if sys.argv[1:2] == ["work"]:
        uvloop.run(work(sys.argv[2], Path(sys.argv[3])))
    else:
        uvloop.run(main())
