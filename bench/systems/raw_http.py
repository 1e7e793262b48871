"""The limit over HTTP: the client alone, with the documents that Outrider sends; no database."""

import asyncio
from collections.abc import Iterator
from importlib.metadata import version

import aiohttp
import msgspec

from outrider.settings import HTTP_CONCURRENCY, HTTP_CONNECTIONS
from systems.child import Request
from systems.raw_rows import key


class NoCrew:
    """The calls are made where they are enqueued."""

    async def start(self) -> None:
        pass

    async def go(self) -> None:
        pass

    async def stop(self) -> None:
        pass


class HttpAlone:
    version = f"aiohttp {version('aiohttp')}"

    def __init__(self, request: Request) -> None:
        self._url = f"{request.options['http']}/sms/send"
        self._name = request.folder
        self._called = 0
        self._accepted = 0

    async def prepare(self) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=HTTP_CONNECTIONS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Content-Type": "application/json"},
        )

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
        raise NotImplementedError

    def crew(self) -> NoCrew:
        return NoCrew()

    async def close(self) -> None:
        await self._session.close()

    async def _call(self, numbers: Iterator[int]) -> None:
        for number in numbers:
            reference = key(f"{self._name}-{number}")
            document = {
                "referenceId": reference,
                "to": f"+4477{number:08d}",
                "message": f"Hi Person {number}",
            }
            async with self._session.post(
                self._url, data=msgspec.json.encode(document)
            ) as response:
                answer = msgspec.json.decode(await response.read())
            assert answer["status"] == "accepted", answer
            self._accepted += 1
