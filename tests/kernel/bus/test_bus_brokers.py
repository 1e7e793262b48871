"""NATS JetStream and Redis Streams as sinks: real servers, killed and started again."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.errors import NotFoundError
from redis.asyncio import Redis

from outrider.domain.errors import InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions.paging import FIRST
from outrider.ports.bus import BusDelivery, BusEvent, Sink
from outrider.ports.store import Store
from outrider.stores.sqlite.store import SqliteStore
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import at
from tests.support.broken_server import closed_port
from tests.support.bus_scene import QUICK, Scene, by_run
from tests.support.controls import PATIENCE_SECONDS
from tests.support.nats_server import PASSWORD, USER, NatsServer, running_nats
from tests.support.redis_server import RedisServer, running_redis

NATS_SECRET = "env:NATS_PASSWORD"


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NATS_PASSWORD", PASSWORD)


@pytest.fixture
async def embedded(tmp_path: Path) -> AsyncIterator[Store]:
    store = SqliteStore(tmp_path / "outrider.db")
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture(scope="module")
def nats_server() -> Iterator[NatsServer]:
    with running_nats() as server:
        yield server


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@asynccontextmanager
async def jetstream(server: NatsServer) -> AsyncIterator[Any]:
    client = await nats.connect(
        f"nats://{server.address}", user=USER, password=PASSWORD, allow_reconnect=False
    )
    try:
        yield client.jetstream()
    finally:
        await client.close()


async def in_stream(server: NatsServer, stream: str) -> list[dict[str, Any]]:
    """Everything the stream holds, in its order, read by a consumer of its own."""
    async with jetstream(server) as js:
        held = (await js.stream_info(stream)).state.messages
        if not held:
            return []
        consumer = await js.pull_subscribe("", stream=stream)
        found: list[dict[str, Any]] = []
        while len(found) < held:
            for message in await consumer.fetch(min(500, held - len(found)), timeout=30):
                event = json.loads(message.data)
                assert message.headers["Nats-Msg-Id"] == event["id"]
                assert message.subject.endswith(f".{event['data']['runId']}")
                found.append(event)
        return found


async def test_jetstream_has_every_event_once_and_in_order_and_its_stream_is_made(
    embedded: Store, nats_server: NatsServer
) -> None:
    scene = Scene(embedded)
    runs = await scene.runs(3, events=20)
    async with jetstream(nats_server) as js:
        with pytest.raises(NotFoundError):
            await js.stream_info("FRESH")
    url = f"{nats_server.url}?stream=FRESH&subject=fresh.events"
    sink = scene.sink(url, secret=NATS_SECRET)
    assert await scene.relay(sink).relay_all()
    await sink.close()
    events = await in_stream(nats_server, "FRESH")
    assert by_run([event["id"] for event in events]) == await scene.logged(*runs)
    async with jetstream(nats_server) as js:
        config = (await js.stream_info("FRESH")).config
    assert config.subjects == ["fresh.events.>"]
    assert (config.max_age, config.duplicate_window) == (7 * 86_400, 7_200)


class AnswerLost:
    """The real sink, whose answer to the first window never arrives."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.windows: list[list[str]] = []

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        deliveries = await self._sink.publish(window)
        self.windows.append([event.id for event in window])
        if len(self.windows) == 1:
            raise ConnectionResetError("the answer was lost")
        return deliveries

    async def close(self) -> None:
        await self._sink.close()


async def test_jetstream_drops_an_event_that_is_published_again(
    embedded: Store, nats_server: NatsServer
) -> None:
    clock = FakeClock(at(0))
    scene = Scene(embedded, clock)
    (run_id,) = await scene.runs(1, events=3)
    url = f"{nats_server.url}?stream=TWICE&subject=twice"
    sink = AnswerLost(scene.sink(url, secret=NATS_SECRET))
    relay = scene.relay(sink)
    assert await relay.relay_all() == 0
    clock.advance(2)
    logged = (await scene.logged(run_id))[run_id]
    assert await relay.relay_all() == len(logged)
    await sink.close()
    assert sink.windows == [logged, logged], "all of it was told twice"
    assert [event["id"] for event in await in_stream(nats_server, "TWICE")] == logged


class KillsItsServer:
    """The real sink, whose server is killed while it is being told the third window."""

    def __init__(self, sink: Sink, server: NatsServer) -> None:
        self._sink = sink
        self._server = server
        self._windows = 0
        self.killed = asyncio.Event()

    async def publish(self, window: Sequence[BusEvent]) -> Sequence[BusDelivery]:
        self._windows += 1
        if self._windows != 3:
            return await self._sink.publish(window)
        telling = asyncio.create_task(self._sink.publish(window))
        await asyncio.sleep(0)
        self._server.kill()
        self.killed.set()
        return await telling

    async def close(self) -> None:
        await self._sink.close()


async def test_nothing_is_lost_when_nats_is_killed_mid_run_and_started_again(
    store: Store,
) -> None:
    scene = Scene(store, limits=replace(QUICK, bus_window_events=100))
    runs = await scene.runs(4, events=150)
    expected = sum(map(len, (await scene.logged(*runs)).values()))
    with running_nats() as server:
        url = f"{server.url}?stream=KILLED&subject=killed"
        sink = KillsItsServer(scene.sink(url, secret=NATS_SECRET), server)
        loop = asyncio.create_task(scene.relay(sink).run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await sink.killed.wait()
        waiting = (await scene.record()).waiting
        assert 0 < waiting < expected, "some of it was told before"
        await scene.happen(runs[0], 10, name="while it was down")
        server.start()
        await scene.told_all(60)
        loop.cancel()
        await asyncio.gather(loop, return_exceptions=True)
        await sink.close()
        events = await in_stream(server, "KILLED")
    assert by_run([event["id"] for event in events]) == await scene.logged(*runs)


async def test_a_wrong_password_and_a_server_that_is_not_there_are_failures(
    embedded: Store, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(embedded)
    await scene.runs(1, events=2)
    monkeypatch.setenv("WRONG", "not the password of the server")
    for url in (nats_server.url, f"nats://{USER}@127.0.0.1:{closed_port()}"):
        sink = scene.sink(url, secret="env:WRONG", timeout_seconds=2)
        assert await scene.relay(sink, max_attempts=1).relay_all() == 0
        await sink.close()
    found = await scene.keeper.letters(DEFAULT_SCOPE, FIRST, 10, only_waiting=True)
    assert len(found) == 2
    assert not any(nats_server.address in letter.error for letter in found)


async def entries(server: RedisServer, stream: str) -> list[dict[bytes, bytes]]:
    async with Redis.from_url(server.url) as redis:
        found: Any = await redis.xrange(stream)
        return [fields for _, fields in found]


async def test_a_redis_stream_has_every_event_in_order(
    store: Store, redis_server: RedisServer
) -> None:
    scene = Scene(store)
    runs = await scene.runs(3, events=30)
    stream = f"events:{store.scheme}"
    sink = scene.sink(f"{redis_server.url}?stream={stream}")
    assert await scene.relay(sink).relay_all()
    await sink.close()
    found = await entries(redis_server, stream)
    assert by_run([entry[b"id"].decode() for entry in found]) == await scene.logged(*runs)
    for entry in found:
        event = json.loads(entry[b"event"])
        assert event["id"].encode() == entry[b"id"]
        assert event["data"]["runId"].encode() == entry[b"runId"]


async def test_a_redis_stream_is_trimmed(embedded: Store, redis_server: RedisServer) -> None:
    scene = Scene(embedded)
    await scene.runs(1, events=600)
    sink = scene.sink(f"{redis_server.url}?stream=short&maxlen=100")
    while (await scene.record()).waiting:
        assert await scene.relay(sink).relay_all()
    await sink.close()
    # About: Redis drops whole nodes of a hundred entries.
    assert 100 <= len(await entries(redis_server, "short")) < 300


async def test_events_that_redis_did_not_take_are_published_when_it_is_back(
    embedded: Store,
) -> None:
    clock = FakeClock(at(0))
    scene = Scene(embedded, clock)
    runs = await scene.runs(2, events=5)
    with running_redis() as server:
        sink = scene.sink(f"unix://{server.url.removeprefix('unix://')}.not-there")
        assert await scene.relay(sink).relay_all() == 0
        await sink.close()
        record = await scene.record()
        assert (record.failed, record.published) == (2, 0)
        clock.advance(2)
        sink = scene.sink(server.url)
        assert await scene.relay(sink).relay_all()
        await sink.close()
        found = await entries(server, "outrider:run-events")
    assert by_run([entry[b"id"].decode() for entry in found]) == await scene.logged(*runs)


async def test_a_redis_that_requires_a_password_gets_it(
    embedded: Store, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(at(0))
    scene = Scene(embedded, clock)
    await scene.runs(1, events=1)
    monkeypatch.setenv("REDIS_PASSWORD", "hunter2")
    async with Redis.from_url(redis_server.url) as redis:
        await redis.config_set("requirepass", "hunter2")
    try:
        refused = scene.sink(f"{redis_server.url}?stream=closed")
        assert await scene.relay(refused).relay_all() == 0
        await refused.close()
        clock.advance(2)
        sink = scene.sink(f"{redis_server.url}?stream=closed", secret="env:REDIS_PASSWORD")
        assert await scene.relay(sink).relay_all()
        await sink.close()
    finally:
        async with Redis.from_url(redis_server.url, password="hunter2") as redis:
            await redis.config_set("requirepass", "")


@pytest.mark.parametrize("maxlen", ["0", "-1", "many", ""])
async def test_a_length_that_is_none_is_refused(embedded: Store, maxlen: str) -> None:
    with pytest.raises(InvalidInput, match="not a number of entries"):
        Scene(embedded).sink(f"redis://127.0.0.1?maxlen={maxlen}")
