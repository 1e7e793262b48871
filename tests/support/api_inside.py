"""The API in the test's own loop, on a real socket: for tests that look inside or set limits."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import uvicorn

from outrider.api.app import create_app
from outrider.api.services import Services
from outrider.bootstrap import Outrider
from outrider.cli.web_server import Server
from outrider.limits.api import ApiLimits
from tests.support.eventually import eventually

START_SECONDS = 60.0


@dataclass(frozen=True)
class Inside:
    address: tuple[str, int]
    services: Services
    session: aiohttp.ClientSession
    key: str

    @property
    def url(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}/api/v2"

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}

    async def post(self, path: str, json: object = None) -> dict[str, object]:
        async with self.session.post(self.url + path, json=json, headers=self.headers) as answer:
            assert answer.status in (200, 201), await answer.text()
            found: dict[str, object] = await answer.json()
            return found

    async def until_no_stream_is_left(self) -> None:
        await self.until_streams(0)

    async def until_streams(self, count: int) -> None:
        """Both the server and the hub count as many."""
        streams, hub = self.services.streams, self.services.outrider.hub
        await until(lambda: (streams.count, hub.watchers) == (count, count))


async def until(reached: Callable[[], bool], seconds: float = 60.0) -> None:
    await eventually(reached, seconds=seconds)


@asynccontextmanager
async def serving(
    outrider: Outrider, limits: ApiLimits, *, run_worker: bool = False
) -> AsyncIterator[Inside]:
    """The server runs for as long as the block; then it stops as it would on SIGTERM."""
    app = create_app(outrider, limits=limits, run_worker=run_worker)
    services: Services = app.state.services
    listening = socket.create_server(("127.0.0.1", 0), backlog=256)
    is_up = asyncio.Event()
    config = uvicorn.Config(
        app, http="httptools", lifespan="on", log_config=None, access_log=False,
        timeout_graceful_shutdown=5,
    )  # fmt: skip
    server = Server(config, is_up.set)
    key = await outrider.key_keeper.ensure_first_key("test")
    assert key is not None
    running = asyncio.create_task(server.serve([listening]))
    try:
        async with asyncio.timeout(START_SECONDS):
            await is_up.wait()
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Inside(listening.getsockname(), services, session, key)
    finally:
        server.should_exit = True
        services.begin_stop()
        await running
