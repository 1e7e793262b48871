"""Idempotency on real databases: the public suite, many processes at once, and pruning."""

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from outrider.bootstrap import make_store
from outrider.kernel.access.idempotency_keeper import DatabaseIdempotency
from outrider.limits.access import (
    IDEMPOTENCY_PRUNE_ITEMS,
    IDEMPOTENCY_RENEW_SECONDS,
    IDEMPOTENCY_RUNNING_SECONDS,
)
from outrider.limits.api import ApiLimits
from outrider.ports.idempotency import Running
from outrider.testing.clock import FakeClock
from outrider.testing.idempotency_suite import (
    RUNNING_SECONDS,
    TTL_SECONDS,
    IdempotencyBench,
    IdempotencyConformance,
    claimed,
    named,
)
from tests.support.foundations import foundation
from tests.support.raw_sql import raw_sql

PROCESSES = 4
KEYS_PER_PROCESS = 25
CHILD = """
import asyncio, sys
from outrider.bootstrap import make_store
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.access.idempotency_keeper import DatabaseIdempotency
from outrider.kernel.foundation import Foundation
from outrider.limits.kernel import Limits
from outrider.ports.idempotency import RequestKey, Yours
from outrider.system import SystemClock, SystemIds

async def main(url, keys):
    store = make_store(url)
    await store.verify_schema()
    keeper = DatabaseIdempotency(
        Foundation(store, SystemClock(), SystemIds(), Limits()), 300, 60
    )
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(keys):
        key = RequestKey(DEFAULT_SCOPE, f"key-{number}", "same")
        if isinstance(await keeper.claim(key), Yours):
            print(number, flush=True)
    await store.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.fixture
async def database_bench(database: str) -> AsyncIterator[IdempotencyBench]:
    clock = FakeClock()
    stores = [make_store(database) for _ in range(2)]
    await stores[0].migrate()
    here, there = (
        DatabaseIdempotency(foundation(store, clock=clock), TTL_SECONDS, RUNNING_SECONDS)
        for store in stores
    )

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    yield IdempotencyBench(here, there, pass_time, stores[0].write)
    for store in stores:
        await store.close()


class TestDatabases(IdempotencyConformance):
    @pytest.fixture
    def bench(self, database_bench: IdempotencyBench) -> IdempotencyBench:
        return database_bench


async def test_processes_that_claim_the_same_keys_at_once_share_them_without_overlap(
    database: str,
) -> None:
    store = make_store(database)
    await store.migrate()
    await store.close()
    children = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, database, str(KEYS_PER_PROCESS),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]  # fmt: skip
    for child in children:
        assert child.stdout is not None
        assert await child.stdout.readline() == b"ready\n"
    ended = await asyncio.gather(*(child.communicate(b"go\n") for child in children))
    assert [child.returncode for child in children] == [0] * PROCESSES
    won = [int(number) for told, _ in ended for number in told.split()]
    assert sorted(won) == list(range(KEYS_PER_PROCESS))


def test_a_dead_servers_claim_is_taken_over() -> None:
    """C1: it was waited for 100 s; now a repeat takes it over while it still waits."""
    assert ApiLimits.idempotency_wait_seconds > IDEMPOTENCY_RUNNING_SECONDS
    assert 2 * IDEMPOTENCY_RENEW_SECONDS < IDEMPOTENCY_RUNNING_SECONDS


async def test_expired_records_are_pruned_a_few_at_a_time(
    database: str, database_bench: IdempotencyBench
) -> None:
    many = 2 * IDEMPOTENCY_PRUNE_ITEMS + 5
    for number in range(many):
        await claimed(database_bench.here, f"old-{number}")
    await database_bench.pass_time(RUNNING_SECONDS)
    left = []
    async with raw_sql(database) as raw:
        for number in range(4):
            await claimed(database_bench.here, f"new-{number}")
            left.append(await raw.value("SELECT count(*) FROM idempotency_records"))
    assert left == [
        many + 1 - IDEMPOTENCY_PRUNE_ITEMS, many + 2 - 2 * IDEMPOTENCY_PRUNE_ITEMS, 3, 4
    ]  # fmt: skip
    assert await database_bench.here.claim(named("new-0")) == Running()
