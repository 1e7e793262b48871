"""A TCP proxy that delivers requests and loses the first answers, as a network can."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

PIECE_BYTES = 65_536


class LostAnswers:
    """Of the first `lost` connections nothing comes back, although the server has answered."""

    def __init__(self, url: str, lost: int) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname, parts.port)
        self._lost = lost
        self.connections = 0
        self.url = ""

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        loses = self.connections <= self._lost
        there_reader, there_writer = await asyncio.open_connection(*self._server)
        onwards = asyncio.create_task(_copied(reader, there_writer))
        with suppress(OSError):
            while piece := await there_reader.read(PIECE_BYTES):
                if loses:
                    break
                writer.write(piece)
                await writer.drain()
        onwards.cancel()
        for each in (writer, there_writer):
            each.close()


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


@asynccontextmanager
async def losing_answers(url: str, lost: int) -> AsyncIterator[LostAnswers]:
    proxy = LostAnswers(url, lost)
    listening = await asyncio.start_server(proxy.carry, "127.0.0.1", 0)
    try:
        proxy.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield proxy
    finally:
        listening.close()
