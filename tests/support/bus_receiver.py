"""A webhook receiver on a real socket, which checks signatures with the code our documents show.

What it answers is scripted: a status, a redirect, silence, a dropped line.
"""

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cywgdGhpcnR5LXR3byE="
DOCUMENT = Path(__file__).parents[2] / "docs/reference/event-bus.md"
Behaviour = Callable[[web.Request, dict[str, Any]], Any]


def documented() -> dict[str, Any]:
    """What the receiver in our documents defines."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, DOCUMENT.name, "exec"), names)
    return names


def accept(_request: web.Request, _event: dict[str, Any]) -> web.Response:
    return web.Response(status=204)


def answer(status: int, **headers: str) -> Behaviour:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _request, _event: web.Response(status=status, headers=given)


@dataclass
class Receiver:
    secret: str = SECRET
    now: Callable[[], float] = time.time
    behave: Behaviour = accept
    url: str = ""
    heard: list[dict[str, Any]] = field(default_factory=list)
    """What was answered with 2xx, in the order it came."""
    asked: list[str] = field(default_factory=list)
    """The id of every event that came, however it was answered."""
    refused: int = 0
    elsewhere: int = 0
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def ids(self) -> list[str]:
        return [event["id"] for event in self.heard]

    async def receive(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.headers = dict(request.headers)
        try:
            event = documented()["verified"](request.headers, body, self.secret, self.now())
        except (ValueError, KeyError):
            self.refused += 1
            return web.Response(status=401)
        assert request.headers["webhook-id"] == event["id"]
        self.asked.append(event["id"])
        answered = self.behave(request, event)
        if not isinstance(answered, web.StreamResponse):
            answered = await answered
        if 200 <= answered.status < 300:
            self.heard.append(event)
        return answered  # type: ignore[no-any-return]

    async def other(self, _request: web.Request) -> web.Response:
        self.elsewhere += 1
        return web.Response(status=204)


@asynccontextmanager
async def receiving(receiver: Receiver) -> AsyncIterator[Receiver]:
    app = web.Application()
    app.router.add_post("/hook", receiver.receive)
    app.router.add_route("*", "/elsewhere", receiver.other)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    receiver.url = f"http://127.0.0.1:{port}/hook"
    try:
        yield receiver
    finally:
        await runner.cleanup()
