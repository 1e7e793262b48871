"""How a witness is told, while it runs, to misbehave: `PUT /script` at a port of its own.

A script replaces the one before it. With `seconds` it lasts for so long, and then the one that was
in force before it is in force again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec
from aiohttp import web

from tests.support.witness_log import WitnessLog


class Script(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """What every witness can be told; the others add to it."""

    seconds: float | None = None


Told = TypeVar("Told", bound=Script)


class Control(Generic[Told]):
    """Which script is in force, and the endpoint that changes it."""

    def __init__(
        self, healthy: Told, log: WitnessLog, applied: Callable[[Told], Awaitable[None]]
    ) -> None:
        self.script = healthy
        self._type = type(healthy)
        self._lasting = healthy
        self._log = log
        self._applied = applied
        self._end: asyncio.Task[None] | None = None

    async def serve(self) -> str:
        """The endpoint's URL."""
        application = web.Application()
        application.router.add_put("/script", self._put)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        return f"http://127.0.0.1:{port}"

    async def _put(self, request: web.Request) -> web.Response:
        script = msgspec.json.decode(await request.read(), type=self._type)
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if script.seconds is None:
            self._lasting = script
        else:
            self._end = asyncio.create_task(self._ended(script.seconds))
        await self._change(script)
        return web.json_response({"at": time.time()})

    async def _ended(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._change(self._lasting)

    async def _change(self, script: Told) -> None:
        self.script = script
        await self._applied(script)
        self._log.script_changed(script)
