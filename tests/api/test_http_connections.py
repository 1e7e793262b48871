"""Requests that never arrive: they are cut off, and everybody else is answered (X3)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import uvicorn

from outrider.api.http_connections import bounded_protocol
from outrider.limits.api import ApiLimits
from tests.support.api_server import running_server

HALF = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"
WHOLE = HALF + b"Connection: close\r\n\r\n"
LIMITS = replace(ApiLimits(), header_seconds=0.5, body_silence_seconds=0.5, arriving_per_address=20)
PATIENT = replace(LIMITS, header_seconds=60.0, body_silence_seconds=60.0)
HALF_OPEN = 1_050
PATIENCE_SECONDS = 60.0

Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def app(scope: dict[str, Any], receive: Callable[[], Any], send: Callable[..., Any]) -> None:
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def listening(limits: ApiLimits, connections_max: int = 1_000) -> AsyncIterator[int]:
    config = uvicorn.Config(
        app, http=bounded_protocol(limits, connections_max), lifespan="off", port=0, log_config=None
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    running = asyncio.create_task(server.main_loop())
    try:
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        await running
        await server.shutdown()


async def say(port: int, words: bytes) -> Line:
    line = await asyncio.open_connection("127.0.0.1", port)
    line[1].write(words)
    await line[1].drain()
    return line


async def rest_of(line: Line) -> bytes:
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            return await line[0].read()
        except ConnectionError:
            return b""


async def test_a_request_whose_head_does_not_arrive_is_cut_off() -> None:
    async with listening(LIMITS) as port:
        for words in (b"", b"G", HALF):
            assert (await rest_of(await say(port, words))).startswith((b"HTTP/1.1 408", b""))
        assert (await rest_of(await say(port, WHOLE))).startswith(b"HTTP/1.1 204")


async def test_a_body_that_falls_silent_is_cut_off_and_one_that_trickles_is_not() -> None:
    head = b"POST / HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 6\r\n\r\n"
    async with listening(LIMITS) as port:
        silent, trickling = await say(port, head + b"abc"), await say(port, head)
        for piece in (b"ab", b"cd", b"ef"):
            trickling[1].write(piece)
            await trickling[1].drain()
        assert (await rest_of(trickling)).startswith(b"HTTP/1.1 204")
        assert await rest_of(silent) == b""


async def test_of_too_many_that_do_not_arrive_the_oldest_is_cut_first() -> None:
    async with listening(PATIENT) as port:
        lines = [await say(port, HALF) for _ in range(PATIENT.arriving_per_address + 1)]
        assert await rest_of(lines[0]) == b""
        assert (await rest_of(await say(port, WHOLE))).startswith(b"HTTP/1.1 204")
        lines[-1][1].write(b"Connection: close\r\n\r\n")
        assert (await rest_of(lines[-1])).startswith(b"HTTP/1.1 204")


async def test_waiting_connections_are_closed_to_make_room_for_others() -> None:
    async with listening(PATIENT, connections_max=5) as port:
        for _ in range(12):
            await say(port, HALF)
        assert (await rest_of(await say(port, WHOLE))).startswith(b"HTTP/1.1 204")


async def test_a_thousand_half_open_requests_do_not_make_the_server_deaf(tmp_path: Path) -> None:
    """X3, at the audit's own measure."""
    async with running_server(tmp_path, workers=0) as server:
        port = int(server.url.rsplit(":", 1)[1])
        lines = [await say(port, HALF) for _ in range(HALF_OPEN)]
        assert (await server.request("GET", "/healthz")).status == 200
        assert (await server.request("GET", "/readyz")).status == 200
        for _, writer in lines:
            writer.close()
