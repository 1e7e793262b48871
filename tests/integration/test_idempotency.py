"""Idempotency on real databases and a real Redis: the public suite, and what is special to each."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis

from outrider.bootstrap import make_store
from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.idempotency_keeper import DatabaseIdempotency
from outrider.ports.idempotency import Running, Yours
from outrider.settings import IDEMPOTENCY_PRUNE_ITEMS
from outrider.stores.redis_idempotency import RedisIdempotency
from outrider.system import SystemIds
from outrider.testing.clock import FakeClock
from outrider.testing.idempotency_suite import (
    CREATED,
    KEY,
    PRINT,
    RUNNING_SECONDS,
    TTL_SECONDS,
    IdempotencyBench,
    IdempotencyConformance,
    claimed,
)
from tests.integration.redis_server import running_redis
from tests.raw_sql import raw_sql

PROCESSES = 4
KEYS_PER_PROCESS = 25
CHILD = """
import asyncio, sys
from outrider.bootstrap import make_store
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.idempotency_keeper import DatabaseIdempotency
from outrider.ports.idempotency import Yours
from outrider.system import SystemClock, SystemIds

async def main(url, keys):
    store = make_store(url)
    await store.verify_schema()
    keeper = DatabaseIdempotency(store, SystemClock(), SystemIds(), 300, 60)
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(keys):
        if isinstance(await keeper.claim(DEFAULT_SCOPE, f"key-{number}", "same"), Yours):
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
        DatabaseIdempotency(store, clock, SystemIds(), TTL_SECONDS, RUNNING_SECONDS)
        for store in stores
    )

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)

    yield IdempotencyBench(here, there, pass_time)
    for store in stores:
        await store.close()


@pytest.fixture(scope="module")
def redis_url() -> Iterator[str]:
    with running_redis() as server:
        yield server.url


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator["Redis"]:
    client = Redis.from_url(redis_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
async def redis_bench(redis_url: str, redis: "Redis") -> AsyncIterator[IdempotencyBench]:
    here, there = (RedisIdempotency(redis_url, TTL_SECONDS, RUNNING_SECONDS) for _ in range(2))

    async def pass_time(seconds: float) -> None:
        """Every key is so much nearer to its end; Redis drops those that are past it."""
        for name in await redis.keys("*"):
            left = await redis.pttl(name)
            assert left > 0, "a record without an end"
            await redis.pexpire(name, left - int(seconds * 1000))

    yield IdempotencyBench(here, there, pass_time)
    await here.close()
    await there.close()


class TestDatabases(IdempotencyConformance):
    @pytest.fixture
    def bench(self, database_bench: IdempotencyBench) -> IdempotencyBench:
        return database_bench


class TestRedis(IdempotencyConformance):
    @pytest.fixture
    def bench(self, redis_bench: IdempotencyBench) -> IdempotencyBench:
        return redis_bench


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
    assert await database_bench.here.claim(DEFAULT_SCOPE, "new-0", PRINT) == Running()


async def test_a_redis_that_was_flushed_has_everything_executed_anew(
    redis: "Redis", redis_bench: IdempotencyBench
) -> None:
    owner = await claimed(redis_bench.here)
    await redis_bench.here.finish(DEFAULT_SCOPE, KEY, owner, CREATED)
    await redis.flushall()
    await redis.script_flush()
    second = await claimed(redis_bench.here)
    await redis.flushall()
    # The record is gone with its owner, so there is nothing to give the answer to.
    await redis_bench.here.finish(DEFAULT_SCOPE, KEY, second, CREATED)
    assert isinstance(await redis_bench.there.claim(DEFAULT_SCOPE, KEY, PRINT), Yours)


async def test_redis_sees_no_client_text_in_the_names_of_its_keys(
    redis: "Redis", redis_bench: IdempotencyBench
) -> None:
    await claimed(redis_bench.here, "a:b c\n*")
    [name] = await redis.keys("*")
    prefix = f"outrider:idempotency:{DEFAULT_SCOPE.tenant_id}:{DEFAULT_SCOPE.workspace_id}:"
    assert isinstance(name, bytes)
    assert re.fullmatch(f"{prefix}[0-9a-f]{{64}}", name.decode())


async def test_a_redis_that_is_gone_is_a_store_that_is_unavailable() -> None:
    with running_redis() as server:
        keeper = RedisIdempotency(server.url, TTL_SECONDS, RUNNING_SECONDS)
        owner = await claimed(keeper)
    with pytest.raises(StoreUnavailable, match="Redis"):
        await keeper.claim(DEFAULT_SCOPE, KEY, PRINT)
    with pytest.raises(StoreUnavailable):
        await keeper.finish(DEFAULT_SCOPE, KEY, owner, CREATED)
    with pytest.raises(StoreUnavailable):
        await keeper.abandon(DEFAULT_SCOPE, KEY, owner)
    await keeper.close()


def test_a_url_that_is_none_of_redis_is_refused_without_being_repeated() -> None:
    with pytest.raises(InvalidInput) as refused:
        RedisIdempotency("http://user:hunter2@localhost", TTL_SECONDS, RUNNING_SECONDS)
    assert "hunter2" not in refused.value.message
    assert "redis://" in str(refused.value.hint)


def test_without_the_package_the_way_to_get_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(InvalidInput) as refused:
        RedisIdempotency("redis://localhost", TTL_SECONDS, RUNNING_SECONDS)
    assert refused.value.hint == 'pip install "outrider[redis]"'
