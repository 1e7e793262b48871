"""The limit over HTTP: a client alone, with the documents that Outrider sends; no database.

Outrider's own client and, for comparison, aiohttp, the usual choice.
"""

import asyncio
from collections.abc import Iterator
from importlib.metadata import version
from typing import Protocol

import aiohttp
import msgspec
from yarl import URL

from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_client import HttpClient
from outrider.limits.gateways import HTTP_CONCURRENCY, HTTP_CONNECTIONS
from systems.child import Request
from systems.raw_rows import key


class Client(Protocol):
    version: str

    async def post(self, url: URL, document: object) -> bytes:
        """The body of the answer."""
        ...

    async def close(self) -> None: ...


class OwnClient:
    version = f"httptools {version('httptools')}"

    def __init__(self) -> None:
        self._client = HttpClient()

    async def post(self, url: URL, document: object) -> bytes:
        answer = await self._client.post_json(url, document)
        assert isinstance(answer, ReceivedAnswer), answer
        return answer.body

    async def close(self) -> None:
        await self._client.close()


class AiohttpClient:
    version = f"aiohttp {version('aiohttp')}"

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=HTTP_CONNECTIONS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
        )

    async def post(self, url: URL, document: object) -> bytes:
        async with self._session.post(url, data=msgspec.json.encode(document)) as response:
            return await response.read()

    async def close(self) -> None:
        await self._session.close()


class NoCrew:
    """The calls are made where they are enqueued."""

    async def start(self) -> None:
        pass

    async def go(self) -> None:
        pass

    async def stop(self) -> None:
        pass


class HttpAlone:
    def __init__(self, request: Request) -> None:
        self._kind = AiohttpClient if request.options.get("client") == "aiohttp" else OwnClient
        self.version = self._kind.version
        self._url = URL(f"{request.options['http']}/sms/send")
        self._name = request.folder
        self._called = 0
        self._accepted = 0

    async def prepare(self) -> None:
        self._client: Client = self._kind()

    async def fill_terminal(self, rows: int) -> None:
        assert not rows

    async def enqueue(self, count: int) -> None:
        first, self._called = self._called, self._called + count
        numbers = iter(range(first, first + count))
        async with asyncio.TaskGroup() as group:
            for _ in range(HTTP_CONCURRENCY):
                group.create_task(self._call(numbers))

    async def done(self) -> int:
        return self._called

    async def recorded(self) -> int:
        return self._accepted

    async def enqueue_one(self, number: int) -> None:
        await self._call(iter([number]))

    def crew(self) -> NoCrew:
        return NoCrew()

    async def close(self) -> None:
        await self._client.close()

    async def _call(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            reference = key(f"{self._name}-{number}")
            document = {
                "referenceId": reference,
                "to": f"+4477{number:08d}",
                "message": f"Hi Person {number}",
            }
            answer = msgspec.json.decode(await self._client.post(self._url, document))
            assert answer["status"] == "accepted", answer
            self._accepted += 1
