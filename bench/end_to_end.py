"""Messages per second end to end, Outrider beside a peer, in one run and one minute.

Enqueue N and drain N to a recorded terminal state, no-op handler, one worker, fsync on. Absolute
figures depend on the machine and on what else it does: compare the ratios of one run.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path

import uvloop
from rich.console import Console
from rich.table import Table

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.states import TERMINAL_RUNS, Channel, RunStatus
from outrider.kernel.transactions import inspection
from outrider.settings import Settings
from outrider.testing.launches import launch, message, people
from outrider.testing.postgres import PrivatePostgres, create_database, given_url
from peer_pgqueuer import pgqueuer_end_to_end

REGISTRY = Path(__file__).parent / "registry.json"
WATCH_SECONDS = 0.02

Measure = Callable[[int], Awaitable[float]]


async def outrider_end_to_end(database_url: str, count: int) -> float:
    """Seconds to import, deploy and deliver `count` messages with one worker in this process."""
    recipients = people(count)
    async with open_outrider(Settings(database_url=database_url, registry=REGISTRY)) as outrider:
        await outrider.store.migrate()
        async with outrider.worker() as worker, asyncio.TaskGroup() as group:
            group.create_task(worker.run())
            began = time.perf_counter()
            run_id = await launch(
                outrider, [message(Channel.SMS, "noop")], recipients, batch_size=500
            )
            await ended(outrider, run_id)
            took = time.perf_counter() - began
            worker.stop()
    return took


async def ended(outrider: Outrider, run_id: RunId) -> None:
    while True:
        record = await outrider.store.read(inspection.run(DEFAULT_SCOPE, run_id))
        if RunStatus(record.status) in TERMINAL_RUNS:
            return
        await asyncio.sleep(WATCH_SECONDS)


async def on_sqlite(count: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        return await outrider_end_to_end(f"sqlite:///{folder}/bench.db", count)


def on_postgres(server_url: str) -> Measure:
    async def measure(count: int) -> float:
        return await outrider_end_to_end(await create_database(server_url), count)

    return measure


def peer(server_url: str) -> Measure:
    async def measure(count: int) -> float:
        return await pgqueuer_end_to_end(await create_database(server_url), count)

    return measure


async def compare(server_url: str, count: int, rounds: int) -> dict[str, list[float]]:
    systems: dict[str, Measure] = {
        "Outrider, SQLite": on_sqlite,
        "Outrider, Postgres": on_postgres(server_url),
        f"PgQueuer {version('pgqueuer')}, Postgres": peer(server_url),
    }
    rates: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, measure in systems.items():
            rates[name].append(count / await measure(count))
    return rates


def report(rates: dict[str, list[float]], count: int) -> None:
    table = Table("system", "messages/s (median)", "lowest", "highest", "× slowest", box=None)
    medians = {name: statistics.median(each) for name, each in rates.items()}
    slowest = min(medians.values())
    for name, each in rates.items():
        numbers = (medians[name], min(each), max(each))
        table.add_row(name, *(f"{n:,.0f}" for n in numbers), f"{medians[name] / slowest:.1f}")
    console = Console()
    console.print(f"{count:,} messages, one worker process, no-op handler, fsync on")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = None if given_url() else PrivatePostgres(Path(folder, "postgres"))
        url = given_url() or (server.url if server else "")
        try:
            rates = uvloop.run(compare(url, given.count, given.rounds))
        finally:
            if server:
                server.close()
    if given.json:
        print(json.dumps({"count": given.count, "messagesPerSecond": rates}))
    else:
        report(rates, given.count)


if __name__ == "__main__":
    main()
