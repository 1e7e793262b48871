"""Servers that misbehave on purpose, on real sockets, and the reservation their callers hold.

A behaviour is a coroutine over one connection; `serving` listens on a free port for as long as the
test needs it and leaves no task behind.
"""

import asyncio
import secrets
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from outrider.domain.ids import IdempotencyKey, OutboxId
from outrider.domain.markup import is_html
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.ports.gateway import Reservation

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
Behaviour = Callable[[Reader, Writer], Awaitable[None]]

REFERENCE = "5f" * 32
LATE_SECONDS = 2.5
SHORT_SECONDS = 1.0
"""Short enough to wait out in a test; only calls that are meant to time out are given it. And long
enough for a busy machine to get as far as it is meant to before."""
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_000
"""Below the ports that systems give to whoever asks for any."""


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class _Reserved(Reservation):
    """A substitute for the kernel's own class: these tests have no ledger."""

    outbox_id: OutboxId
    reference: IdempotencyKey
    address: str
    subject: str | None
    body: str
    payload: Mapping[str, Any] | None = None
    is_html: bool = False
    may_begin: Callable[[], bool] = _always

    def begin(self) -> bool:
        return self.may_begin()


def reservation(
    address: str = "+447700900123",
    *,
    reference: str = REFERENCE,
    subject: str | None = None,
    body: str = "Hello",
    payload: Mapping[str, Any] | None = None,
    may_begin: Callable[[], bool] = _always,
) -> Reservation:
    return _Reserved(
        OutboxId("item"), IdempotencyKey(reference), address, subject, body, payload,
        is_html(body), may_begin,
    )  # fmt: skip


@asynccontextmanager
async def serving(behave: Behaviour, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """The port of a server that treats every connection with this behaviour."""
    conversations: set[asyncio.Task[None]] = set()

    async def converse(reader: Reader, writer: Writer) -> None:
        try:
            await behave(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def accept(reader: Reader, writer: Writer) -> None:
        conversation = asyncio.create_task(converse(reader, writer))
        conversations.add(conversation)
        conversation.add_done_callback(conversations.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for conversation in conversations:
            conversation.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)


def closed_port() -> int:
    """A port nobody listens on, and that nobody else is given by chance before one's own server."""
    while True:
        port = LOWEST_PORT + secrets.randbelow(HIGHEST_PORT - LOWEST_PORT)
        with socket.socket() as found:
            try:
                found.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


async def read_request(reader: Reader) -> bytes:
    """One whole HTTP request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return head + await reader.readexactly(length)


def reset(writer: Writer) -> None:
    """Close with RST instead of FIN."""
    line = writer.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def speak_first(_reader: Reader, writer: Writer) -> None:
    writer.write(b"220 this is a mail server\r\n")
    await writer.drain()


async def reset_at_once(_reader: Reader, writer: Writer) -> None:
    reset(writer)


def reset_after(bytes_read: int) -> Behaviour:
    async def behave(reader: Reader, writer: Writer) -> None:
        await reader.readexactly(bytes_read)
        reset(writer)

    return behave


async def read_then_close(reader: Reader, _writer: Writer) -> None:
    await read_request(reader)


async def hang(reader: Reader, _writer: Writer) -> None:
    await reader.read()
    await asyncio.Event().wait()


def answering(answer: bytes, *, after_seconds: float = 0.0) -> Behaviour:
    """Answers every request of a connection with these bytes, whatever they are."""

    async def behave(reader: Reader, writer: Writer) -> None:
        while True:
            await read_request(reader)
            await asyncio.sleep(after_seconds)
            writer.write(answer)
            await writer.drain()

    return behave


def answering_then_close(answer: bytes) -> Behaviour:
    async def behave(reader: Reader, writer: Writer) -> None:
        await read_request(reader)
        writer.write(answer)

    return behave


def http(status: int, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} Some", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass(slots=True)
class MailServer:
    """A scripted SMTP server: a reply for each step; an empty reply drops the line there."""

    greeting: str = "220 ready"
    ehlo: str = "250 hello"
    helo: str = "250 hello"
    mail: str = "250 sender fine"
    rcpt: str = "250 recipient fine"
    data: str = "354 go on"
    body: str = "250 queued as 42"
    rset: str = "250 reset"
    quit: str = "221 bye"
    starttls: str = "502 what?"
    connections: int = 0
    messages: int = 0
    last_message: bytes = b""

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        self.connections += 1
        if not await self._reply(writer, self.greeting):
            return
        while line := await reader.readline():
            verb = line.split()[0].decode().lower()
            if not await self._reply(writer, getattr(self, verb)):
                return
            if verb == "data" and self.data.startswith("354"):
                self.last_message = await reader.readuntil(b"\r\n.\r\n")
                self.messages += 1
                if not await self._reply(writer, self.body):
                    return

    async def _reply(self, writer: Writer, reply: str) -> bool:
        writer.write(f"{reply}\r\n".encode() if reply else b"")
        await writer.drain()
        return bool(reply)


class HoldingSandbox(Sandbox):
    """Has each request on record, and answers while `answers` is set: what a test does meanwhile is
    done before any answer, however busy the machine is."""

    def __init__(self, faults: Faults | None = None, *, log_path: Path | None = None) -> None:
        super().__init__(faults, log_path=log_path)
        self.answers = asyncio.Event()
        self.answers.set()

    async def wait(self) -> None:
        await super().wait()
        await self.answers.wait()


class StallingSandbox(Sandbox):
    """Has each request on record and withholds the answer until the test says so."""

    def __init__(self, faults: Faults | None = None, *, log_path: Path | None = None) -> None:
        super().__init__(faults, log_path=log_path)
        self.stalled, self.released = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self.stalled.set()
        await self.released.wait()
