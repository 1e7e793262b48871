"""Event streams over real sockets: order, resumption, heartbeats, and clients that misbehave."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId
from outrider.domain.keys import KeyScope
from outrider.limits.api import ApiLimits
from outrider.ports.store import Result, Store, Transaction
from outrider.testing.launches import target
from tests.support.api_inside import Inside, serving, until
from tests.support.api_server import ApiServer, Event, Stream, campaign, running_server
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened

NOOP = target("noop", "noop", "noop:")
LIFECYCLE = ["phase_started", "phase_paused", "phase_resumed", "phase_paused"]


async def controlled(server: ApiServer | Inside) -> str:
    """A campaign with four lifecycle events; without a worker nothing else happens to it."""
    campaign_id = str((await server.post("/campaigns", campaign()))["campaignId"])
    for action in ("start", "pause", "resume", "pause"):
        await act(server, campaign_id, action)
    return campaign_id


async def act(server: ApiServer | Inside, campaign_id: str, action: str) -> None:
    await server.post(f"/campaigns/{campaign_id}/phases/launch/{action}")


@asynccontextmanager
async def inside(tmp_path: Path, *, counting: bool = False, **limits: Any) -> AsyncIterator[Inside]:
    async with opened(f"sqlite:///{tmp_path}/outrider.db", tmp_path, NOOP) as outrider:
        used: Outrider = outrider
        if counting:
            used = replace(outrider, store=CountingStore(outrider.store))
        async with serving(used, ApiLimits(**limits)) as server:
            yield server


@asynccontextmanager
async def stream(server: Inside, campaign_id: str, after: int = 0) -> AsyncIterator[Stream]:
    url = f"{server.url}/campaigns/{campaign_id}/events?after={after}"
    async with server.session.get(url, headers=server.headers) as response:
        assert response.status == 200, await response.text()
        yield Stream(response)


def sequences(events: list[Event]) -> list[int]:
    return [event.data["sequence"] for event in events]


class CountingStore:
    """A store that counts who asks for events."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.event_reads = 0

    async def read(self, transaction: Transaction[Result]) -> Result:
        def counted() -> Transaction[Result]:
            try:
                statement = next(transaction)
                while True:
                    self.event_reads += statement.name == "campaign_events_after"
                    statement = transaction.send((yield statement))
            except StopIteration as done:
                result: Result = done.value
                return result

        return await self._store.read(counted())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_events_come_in_order_with_their_envelope(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        campaign_id = await controlled(server)
        async with server.stream(campaign_id, after=0) as events:
            assert events.response.headers["Content-Type"].startswith("text/event-stream")
            assert events.response.headers["Cache-Control"] == "no-store"
            found = await events.take(4)
    assert sequences(found) == [1, 2, 3, 4]
    assert [event.type for event in found] == LIFECYCLE
    for event in found:
        assert event.id == str(event.data["sequence"])
        assert event.data.keys() == {
            "type", "campaignId", "phase", "sequence", "timestamp", "payload",
        }  # fmt: skip
        assert event.data["type"] == event.type
        assert event.data["campaignId"] == campaign_id
        assert event.data["phase"] == "launch"
    assert events.comments == ["after 0"]


async def test_a_client_resumes_by_last_event_id_which_wins_over_after(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        campaign_id = await controlled(server)
        async with server.stream(campaign_id, after=3) as events:
            assert sequences(await events.take(1)) == [4]
        async with server.stream(campaign_id, after=0, last_event_id=2) as events:
            assert sequences(await events.take(2)) == [3, 4]


async def test_without_a_position_only_new_events_come(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        campaign_id = await controlled(server)
        async with server.stream(campaign_id) as events:
            await act(server, campaign_id, "resume")
            assert sequences(await events.take(1)) == [5]
            assert events.comments == ["after 4"]


@pytest.mark.parametrize("position", ["abc", "-1", "1.5", "9" * 19, "٣"])
async def test_a_position_that_is_none_is_refused(tmp_path: Path, position: str) -> None:
    async with inside(tmp_path) as server:
        campaign_id = await controlled(server)
        for query, headers in (
            ({"after": position}, {}),
            ({}, {"Last-Event-ID": position.encode().decode("latin-1")}),
        ):
            async with server.session.get(
                f"{server.url}/campaigns/{campaign_id}/events",
                params=query,
                headers={**server.headers, **headers},
            ) as answer:
                assert answer.status == 400
                assert (await answer.json())["error"]["code"] == "INVALID_REQUEST"


async def test_a_quiet_stream_is_kept_alive_by_comments(tmp_path: Path) -> None:
    async with inside(tmp_path, stream_ping_seconds=0.05) as server:
        campaign_id = await controlled(server)
        async with stream(server, campaign_id, after=4) as events:
            waiting = asyncio.create_task(events.next())
            await until(lambda: events.comments.count("ping") >= 3)
            await act(server, campaign_id, "resume")
            assert (await waiting).data["sequence"] == 5


async def test_many_clients_share_one_reader(tmp_path: Path) -> None:
    clients = 50
    async with inside(tmp_path, counting=True) as server:
        campaign_id = await controlled(server)
        store = server.services.outrider.store
        assert isinstance(store, CountingStore)

        async def watch(is_ready: asyncio.Event) -> list[int]:
            async with stream(server, campaign_id, after=3) as events:
                first = await events.take(1)
                is_ready.set()
                return sequences(first + await events.take(2))

        ready = [asyncio.Event() for _ in range(clients)]
        watching = [asyncio.create_task(watch(each)) for each in ready]
        await asyncio.gather(*(each.wait() for each in ready))
        await server.until_streams(clients)
        before = store.event_reads
        await act(server, campaign_id, "resume")
        await act(server, campaign_id, "pause")
        assert await asyncio.gather(*watching) == [[4, 5, 6]] * clients
        assert store.event_reads - before <= 2
        await server.until_no_stream_is_left()


async def test_clients_that_vanish_abruptly_leave_nothing_behind(tmp_path: Path) -> None:
    async with inside(tmp_path) as server:
        campaign_id = await controlled(server)
        connections = [raw_stream(server, campaign_id) for _ in range(20)]
        await server.until_streams(20)
        for connection in connections:
            reset(connection)
        await server.until_no_stream_is_left()
        # Before the server has even looked at the request.
        for _ in range(20):
            reset(raw_stream(server, campaign_id))
        await act(server, campaign_id, "resume")
        await server.until_no_stream_is_left()
        async with stream(server, campaign_id, after=4) as events:
            assert sequences(await events.take(1)) == [5]


async def test_a_client_that_stops_reading_is_dropped_and_holds_nobody_up(tmp_path: Path) -> None:
    async with inside(tmp_path, stream_send_seconds=1.5) as server:
        campaign_id = await controlled(server)
        await many_events(f"sqlite:///{tmp_path}/outrider.db", campaign_id, 30_000)
        stalled = raw_stream(server, campaign_id)
        await server.until_streams(1)
        async with stream(server, campaign_id, after=29_990) as events:
            assert sequences(await events.take(10)) == list(range(29_991, 30_001))
            await server.until_streams(1)
            await act(server, campaign_id, "resume")
            assert sequences(await events.take(1)) == [30_001]
        await server.until_no_stream_is_left()
        stalled.close()


async def test_no_more_streams_than_the_limit_are_opened(tmp_path: Path) -> None:
    async with inside(tmp_path, streams=1) as server:
        campaign_id = await controlled(server)
        url = f"{server.url}/campaigns/{campaign_id}/events"
        async with stream(server, campaign_id), server.session.get(
            url, headers=server.headers
        ) as refused:  # fmt: skip
            assert refused.status == 503
            assert "Retry-After" in refused.headers
            assert (await refused.json())["error"]["code"] == "TOO_MANY_STREAMS"
        await server.until_no_stream_is_left()
        async with stream(server, campaign_id) as events:
            assert sequences(await events.take(1)) == [1]


async def test_a_key_with_all_its_streams_open_is_refused_and_another_workspaces_is_not(
    tmp_path: Path,
) -> None:
    """X5: one read key took all streams of the server."""
    async with inside(tmp_path, streams=3, streams_per_workspace=2, streams_per_key=1) as server:
        campaign_id = await controlled(server)
        url = f"{server.url}/campaigns/{campaign_id}/events"
        keeper = server.services.outrider.key_keeper
        (_, second), (_, third) = [
            await keeper.create(DEFAULT_SCOPE, name, [KeyScope.READ], "test") for name in "ab"
        ]
        async with stream(server, campaign_id), AsyncExitStack() as opened:

            async def refusal(key: str) -> str:
                response = await opened.enter_async_context(
                    server.session.get(url, headers={"Authorization": f"Bearer {key}"})
                )
                if response.status == 200:
                    return ""
                assert (response.status, "Retry-After" in response.headers) == (429, True)
                error = (await response.json())["error"]
                assert error["code"] == "TOO_MANY_STREAMS"
                assert "/api/v2/stream" in error["hint"]
                return str(error["message"])

            assert "this key has 1 event streams open" in await refusal(server.key)
            assert await refusal(second) == ""
            assert "this workspace has 2 event streams open" in await refusal(third)
            scope = await keeper.open_workspace("another", "project", "test")
            _, key = await keeper.create(scope, "other", [KeyScope.OPERATE], "test")
            theirs = replace(server, key=key)
            async with stream(theirs, await controlled(theirs)) as events:
                assert sequences(await events.take(1)) == [1]
        await server.until_no_stream_is_left()


async def test_a_stopping_server_ends_its_streams_properly(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        campaign_id = await controlled(server)
        async with server.stream(campaign_id, after=0) as events:
            await events.take(4)
            stopping = asyncio.create_task(server.stop())
            # Broken off, this would raise: the last chunk would be missing.
            await events.ended()
            assert await stopping == 0


async def test_after_a_restart_clients_resume_where_they_were(tmp_path: Path) -> None:
    async with running_server(tmp_path, workers=0) as server:
        campaign_id = await controlled(server)
        async with server.stream(campaign_id, after=0) as events:
            seen = await events.take(2)
            await server.kill()
            with pytest.raises((aiohttp.ClientError, EOFError)):
                await events.take(5)
        await server.start()
        await act(server, campaign_id, "resume")
        async with server.stream(campaign_id, last_event_id=seen[-1].id) as events:
            rest = await events.take(3)
    assert sequences(seen + rest) == [1, 2, 3, 4, 5]


def raw_stream(server: Inside, campaign_id: str) -> socket.socket:
    """A client that asks for the stream and never reads."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.connect(server.address)
    path = f"/api/v2/campaigns/{CampaignId(campaign_id)}/events?after=0"
    request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.key}\r\n\r\n"
    connection.sendall(request.encode())
    return connection


def reset(connection: socket.socket) -> None:
    """No goodbye: the connection is reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


async def many_events(database: str, campaign_id: str, last: int) -> None:
    """More than the buffers of any socket hold."""
    payload = '{"note": "' + "x" * 900 + '"}'
    async with raw_sql(database) as raw:
        await raw.run(f"""
            WITH RECURSIVE numbers (n) AS (
              SELECT 5 UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})
            INSERT INTO campaign_events (campaign_id, sequence, type, phase, payload, created_at)
            SELECT '{campaign_id}', n, 'campaign_progress', 'launch', '{payload}',
                   '2026-01-01T00:00:00.000000Z' FROM numbers""")
        await raw.run(f"UPDATE campaigns SET last_sequence = {last} WHERE id = '{campaign_id}'")
