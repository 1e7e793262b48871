"""A connection to a database that a test can cut: data is then neither delivered nor refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit, urlunsplit

POSTGRES_PORT = 5432
PIECE_BYTES = 65_536


class CutLine:
    """A TCP proxy in front of Postgres; `url` is the database's, through it."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._open = asyncio.Event()
        self._open.set()
        self._carrying: set[asyncio.Task[None]] = set()
        self.url = ""

    def cut(self) -> None:
        """As a network that drops packets: connections stay, and nothing comes through."""
        self._open.clear()

    def mend(self) -> None:
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The server's own callback would call its cancellation, at the end of a test, an error.
        with suppress(asyncio.CancelledError):
            await self._joined(reader, writer)

    async def _joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        there_reader, there_writer = await self._connected()
        tasks = [
            asyncio.create_task(self._carry(reader, there_writer)),
            asyncio.create_task(self._carry_answers(there_reader, writer)),
        ]
        self._carrying.update(tasks)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for each in (writer, there_writer):
            each.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                await self._open.wait()
                writer.write(piece)
                await writer.drain()

    async def _carry_answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await self._carry(reader, writer)

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        parts = urlsplit(self._database)
        folder = parse_qs(parts.query).get("host", [""])[0]
        port = parts.port or POSTGRES_PORT
        if folder.startswith("/"):
            return await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.{port}")
        return await asyncio.open_connection(parts.hostname or folder, port)

    def reached_at(self, port: int) -> None:
        parts = urlsplit(self._database)
        who = parts.netloc.rpartition("@")[0] or "postgres:"
        there = parts._replace(netloc=f"{who}@127.0.0.1:{port}", query="sslmode=disable")
        self.url = urlunsplit(there)

    def close(self) -> None:
        self.mend()
        for task in self._carrying:
            task.cancel()


@asynccontextmanager
async def line_to(database: str) -> AsyncIterator[CutLine]:
    line = CutLine(database)
    async with serving(line):
        yield line


@asynccontextmanager
async def serving(line: CutLine) -> AsyncIterator[None]:
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    line.reached_at(server.sockets[0].getsockname()[1])
    try:
        yield
    finally:
        server.close()
        line.close()
