"""What it takes to claim jobs while many of them wait, of many tenants.

Jobs of one campaign are written by SQL into as many groups as there are tenants; then the real
claim is timed, a few jobs at a time. Run it from the project's folder, with `PYTHONPATH=.`;
`python bench/claims.py sqlite` or `postgres` is one database alone.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

import structlog
from tests.stores.test_claim_costs import wait

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import WorkerId
from outrider.domain.states import Channel
from outrider.kernel.transactions import claims
from outrider.kernel.transactions.claims import Claimer
from outrider.settings import Settings
from outrider.testing.launches import launch, message, people, registry, target
from outrider.testing.postgres import PrivatePostgres, create_database

SIZES = ((1, 1_000), (1_000, 10), (1_000, 100), (1_000, 500))
"""Tenants, and jobs that wait of each."""
CLAIMED = 8
LOOKS = 60


@contextmanager
def databases() -> Iterator[list[str]]:
    """One for each size and kind of database."""
    chosen = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        urls = []
        if chosen != "postgres":
            urls += [f"sqlite:///{folder}/{number}.db" for number in range(len(SIZES))]
        server = PrivatePostgres(Path(folder) / "postgres") if chosen != "sqlite" else None
        try:
            if server is not None:
                urls += [asyncio.run(create_database(server.url)) for _ in SIZES]
            yield urls
        finally:
            if server is not None:
                server.close()


async def measure(database: str, tenants: int, jobs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        path = Path(folder) / "registry.json"
        path.write_bytes(registry(target("noop", "noop", "noop:")))
        settings = Settings(database_url=database, registry=path, spool=Path(folder) / "spool")
        async with open_outrider(settings) as outrider:
            await outrider.store.migrate()
            await launch(outrider, [message(Channel.SMS, "noop")], people(1))
            await wait(database, 1, tenants, jobs)
            taken = [await _claim(outrider, f"group-{n % tenants}") for n in range(LOOKS)]
    kind = database.partition(":")[0]
    print(
        f"{kind}: {tenants:>5,} tenants, {tenants * jobs:>7,} jobs waiting:"
        f" {CLAIMED} claimed in {median(taken):.1f} ms",
        flush=True,
    )


async def _claim(outrider: Outrider, group: str) -> float:
    now = datetime.now(UTC)
    claimer = Claimer(
        WorkerId("bench"), now + timedelta(seconds=30), lambda *_: "bench", outrider.ids
    )
    began = time.perf_counter()
    await outrider.store.write(claims.claim(claimer, {group: CLAIMED}, now))
    return (time.perf_counter() - began) * 1_000


def main() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    with databases() as urls:
        for number, url in enumerate(urls):
            asyncio.run(measure(url, *SIZES[number % len(SIZES)]))


if __name__ == "__main__":
    main()
