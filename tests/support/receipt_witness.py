"""A proxy between a provider and a server's receipts URL that records the traffic.

What a test knows of receipts is then what went over the wire and how the server answered, and not
what either of them says of itself.
"""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import aiohttp
import msgspec
from aiohttp import web

CONTENT_HEADERS = ("content-type",)
SIGNATURE_PREFIX = "webhook-"


@dataclass(frozen=True, slots=True)
class PassedPost:
    body: bytes
    status: int

    @property
    def receipts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = msgspec.json.decode(self.body)["receipts"]
        return found


class ReceiptWitness:
    """Without a `forward_to` it takes everything itself."""

    def __init__(self) -> None:
        self.forward_to: str | None = None
        self.posts: list[PassedPost] = []
        self.url = ""
        self._session: aiohttp.ClientSession | None = None
        self._runner = web.ServerRunner(web.Server(self._pass_on, access_log=None))

    @property
    def taken(self) -> set[str]:
        """The ids of the receipts that the server has answered with 200."""
        passed = [post for post in self.posts if post.status == 200]
        return {each["receiptId"] for post in passed for each in post.receipts}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession()
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        assert self._session is not None
        await self._session.close()

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        body, status = await request.read(), 200
        if self.forward_to is not None:
            status = await self._forwarded(self.forward_to, request, body)
        self.posts.append(PassedPost(body, status))
        return web.Response(status=status)

    async def _forwarded(self, url: str, request: web.BaseRequest, body: bytes) -> int:
        assert self._session is not None
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() in CONTENT_HEADERS or name.lower().startswith(SIGNATURE_PREFIX)
        }
        try:
            async with self._session.post(url, data=body, headers=headers) as answer:
                return answer.status
        except aiohttp.ClientError:
            return 503
