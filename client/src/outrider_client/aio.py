"""The client for asyncio: `pip install "outrider-client[async]"`."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

import aiohttp
import msgspec
from yarl import URL

from outrider_client.addresses import (
    ANSWER_MAX_BYTES,
    TIMEOUT_SECONDS,
    address_of,
    authorisation,
    length_of,
    rewound,
    start_of,
)
from outrider_client.async_operations import AsyncOperations
from outrider_client.base import Page
from outrider_client.calls import Call, call
from outrider_client.errors import Refused, Unreachable, error_of
from outrider_client.models import CampaignStatus, EventEnvelope
from outrider_client.retries import Retries, is_temporary
from outrider_client.watching import SILENT_SECONDS, SNAPSHOT_REQUIRED, EventLines, StreamRules

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Given = ParamSpec("Given")
BROKEN = (OSError, aiohttp.ClientError, asyncio.TimeoutError)
PIECE_BYTES = 256 * 1024


class AsyncClient(AsyncOperations):
    """Use it in `async with`."""

    def __init__(
        self,
        url: str,
        key: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        retries: Retries | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = address_of(url)
        self._headers = authorisation(key)
        self._timeout_seconds = timeout_seconds
        self._retries = retries or Retries()
        self._tls = tls
        self._opened: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        if self._opened is not None:
            await self._opened.close()
            self._opened = None

    async def every(
        self,
        method: Callable[Given, Awaitable[Page[Item]]],
        *args: Given.args,
        **query: Given.kwargs,
    ) -> AsyncIterator[Item]:
        """All items of a list, page by page: `client.every(client.list_doubts, run_id=…)`."""
        given: dict[str, Any] = dict(query)
        while True:
            page = await method(*args, **given)
            for item in page.items:
                yield item
            if page.next is None:
                return
            given["after"] = page.next

    async def watch(self, campaign_id: str) -> AsyncIterator[CampaignStatus | EventEnvelope]:
        """As `Client.watch`."""
        rules, failures, since = StreamRules(), 0, time.monotonic()
        while True:
            status = await self.get_campaign_status(campaign_id)
            rules.begin(status)
            yield status
            try:
                async for event in self._events(campaign_id, rules.sequence):
                    failures, since = 0, time.monotonic()
                    if event.type == SNAPSHOT_REQUIRED:
                        break
                    if rules.accepts(event):
                        yield event
            except BROKEN as error:
                failures += 1
                await self._wait(failures, since, None, error)

    async def _events(self, campaign_id: str, after: int) -> AsyncIterator[EventEnvelope]:
        path = ("campaigns", campaign_id, "events")
        asked = call("GET", path, bytes, query={"after": after})
        timeout = aiohttp.ClientTimeout(total=None, sock_read=SILENT_SECONDS)
        async with self._request(asked, 0, timeout) as response:
            if response.status != 200:
                if is_temporary(response.status, response.headers.get("Retry-After")):
                    raise ConnectionError(f"status {response.status}")
                raise error_of(response.status, await response.read())
            lines = EventLines()
            async for line in response.content:
                if event := lines.feed(line):
                    yield event
        raise ConnectionError("the stream has ended")

    async def _ask(self, asked: Call[Answer]) -> Answer:
        begun, attempt, start = time.monotonic(), 0, start_of(asked.content)
        while True:
            attempt += 1
            try:
                status, retry_after, body = await self._once(asked, start)
            except BROKEN as error:
                await self._wait(attempt, begun, None, error)
                continue
            if status < 300:
                return self._decoded(asked, body)
            refusal = error_of(status, body)
            if not is_temporary(status, retry_after):
                raise refusal
            await self._wait(attempt, begun, retry_after, refusal)

    def _decoded(self, asked: Call[Answer], body: bytes) -> Answer:
        try:
            return asked.decoded(body)
        except msgspec.MsgspecError as error:
            raise Unreachable(f"the answer is not what this version expects: {error}") from error

    async def _wait(
        self, attempt: int, begun: float, retry_after: str | None, error: Exception
    ) -> None:
        delay = self._retries.delay(attempt, time.monotonic() - begun, retry_after)
        if delay is not None:
            await asyncio.sleep(delay)
        elif isinstance(error, Refused | Unreachable):
            raise error
        else:
            raise Unreachable(f"no answer from {self._address.url.netloc}: {error}") from error

    async def _once(self, asked: Call[Any], start: int) -> tuple[int, str | None, bytes]:
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=10, sock_read=self._timeout_seconds
        )
        async with self._request(asked, start, timeout) as response:
            body = await response.content.read(ANSWER_MAX_BYTES)
            while piece := await response.content.read(ANSWER_MAX_BYTES - len(body)):
                body += piece
            return response.status, response.headers.get("Retry-After"), body

    def _request(self, asked: Call[Any], start: int, timeout: aiohttp.ClientTimeout) -> Any:
        content = rewound(asked.content, start)
        length = length_of(content, start)
        if self._opened is None:
            connector = aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True)
            self._opened = aiohttp.ClientSession(connector=connector, headers=self._headers)
        url = self._address.url
        origin = f"{url.scheme}://{url.netloc}{self._address.path}"
        return self._opened.request(
            asked.method,
            URL(origin + asked.path, encoded=True),
            data=content if isinstance(content, bytes) else _pieces(content, length),
            headers={**asked.headers, "Content-Length": str(length)},
            timeout=timeout,
            allow_redirects=False,
        )


async def _pieces(content: Any, length: int) -> AsyncIterator[bytes]:
    while length > 0:
        piece = await asyncio.to_thread(content.read, min(PIECE_BYTES, length))
        if not piece:
            return
        length -= len(piece)
        yield piece
