"""A provider that answers 503 to everything for as long as a test wants."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from tests.support.broken_server import closed_port


@asynccontextmanager
async def moody_provider(behind: str) -> AsyncIterator[tuple[str, list[bool]]]:
    """Answers 503 to everything while its list says so; otherwise the provider behind it does."""
    is_down = [True]

    async def answer(request: web.Request) -> web.Response:
        if is_down[0]:
            return web.Response(status=503)
        async with aiohttp.ClientSession() as session:
            body, headers = await request.read(), {"Content-Type": request.content_type}
            if "Authorization" in request.headers:
                headers["Authorization"] = request.headers["Authorization"]
            async with session.post(behind + request.path, data=body, headers=headers) as response:
                return web.Response(
                    status=response.status,
                    body=await response.read(),
                    content_type=response.content_type,
                )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = closed_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    try:
        yield f"http://127.0.0.1:{port}", is_down
    finally:
        await runner.cleanup()
