"""The simulator's HTTP/2 server, for Apple, which speaks nothing else: real TLS, many requests on
one connection, and what can go wrong with only one of them.
"""

import asyncio
import contextlib
import math
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from outrider.gateways.sandbox_certificate import certificate_file, server_context
from outrider.gateways.sandbox_protocol import Kept, Outcome, Rate, Reply
from outrider.gateways.simulators import apns

if TYPE_CHECKING:
    from outrider.gateways.sandbox import Sandbox

READ_BYTES = 65_536


class Http2Faults(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What only HTTP/2 has. The rates are shares of its requests and add up."""

    streams_max: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 100
    """Requests at once that a new connection allows."""
    goaway_rate: Rate = 0.0
    """Told, before it was taken, that the connection ends; earlier requests are still answered."""
    refuse_rate: Rate = 0.0
    """Reset as REFUSED_STREAM, before it was taken."""
    reset_rate: Rate = 0.0
    """Taken, and then reset instead of answered."""


class Http2Server:
    def __init__(self, sandbox: "Sandbox", host: str, port: int = 0) -> None:
        self._sandbox, self._host, self._port = sandbox, host, port
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._random = random.Random(sandbox.faults.seed)
        self.connections = 0
        """How many there ever were."""

    @property
    def url(self) -> str:
        return f"https://{self._host}:{self._port}"

    @property
    def certificate(self) -> Path:
        """The file that a client must trust."""
        return certificate_file()

    async def start(self) -> None:
        context = server_context("h2")
        self._server = await asyncio.start_server(self._serve, self._host, self._port, ssl=context)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        session = _Session(self._sandbox, writer, self._random)
        try:
            await session.listen(reader)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            session.close()


class _Session:
    """One connection. A request is answered by a task of its own."""

    def __init__(
        self, sandbox: "Sandbox", writer: asyncio.StreamWriter, dice: random.Random
    ) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection
        from h2.settings import SettingCodes

        self._sandbox, self._writer, self._dice = sandbox, writer, dice
        self._h2: H2Connection = H2Connection(
            H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self._h2.local_settings[SettingCodes.MAX_CONCURRENT_STREAMS] = (
            sandbox.faults.http2.streams_max
        )
        self._requests: dict[int, tuple[dict[str, str], bytearray]] = {}
        self._answers: set[asyncio.Task[None]] = set()
        self._last: int | None = None
        """Once it is leaving: the last request that it takes."""

    def close(self) -> None:
        for task in self._answers:
            task.cancel()
        self._writer.close()

    async def listen(self, reader: asyncio.StreamReader) -> None:
        from h2.events import Event
        from h2.exceptions import ProtocolError

        self._h2.initiate_connection()
        self._flush()
        with contextlib.suppress(ProtocolError):
            while data := await reader.read(READ_BYTES):
                received: list[Event] = self._h2.receive_data(data)
                for event in received:
                    self._happened(event)
                self._flush()
                if self._last is not None and not self._answers:
                    return

    def _happened(self, event: object) -> None:
        from h2 import events

        match event:
            case events.RequestReceived(stream_id=int(number), headers=list(lines)):
                self._requests[number] = dict(lines), bytearray()  # type: ignore[arg-type]
            case events.DataReceived(stream_id=int(number), data=bytes(part)):
                self._h2.acknowledge_received_data(event.flow_controlled_length or 0, number)
                self._requests[number][1].extend(part)
            case events.StreamEnded(stream_id=int(number)):
                headers, body = self._requests.pop(number)
                if self._last is None or number <= self._last:
                    self._decide(number, headers, bytes(body))
            case events.StreamReset(stream_id=int(number)):
                self._requests.pop(number, None)
            case _:
                pass

    def _decide(self, number: int, headers: dict[str, str], body: bytes) -> None:
        from h2.errors import ErrorCodes

        faults, dice = self._sandbox.faults.http2, self._dice.random()
        if dice < faults.goaway_rate:
            self._leave(number - 1)
        elif dice < faults.goaway_rate + faults.refuse_rate:
            self._h2.reset_stream(number, ErrorCodes.REFUSED_STREAM)
        elif dice < faults.goaway_rate + faults.refuse_rate + faults.reset_rate:
            self._answer(number, headers, body, lambda _: self._reset(number))
        else:
            self._answer(number, headers, body, lambda reply: self._say(number, reply))

    def _leave(self, last: int) -> None:
        from h2.connection import ConnectionState

        self._h2.close_connection(last_stream_id=last)
        # The library would now send nothing more, not even the answers that are still due.
        self._h2.state_machine.state = ConnectionState.SERVER_OPEN
        self._last = last

    def _answer(
        self, number: int, headers: dict[str, str], body: bytes, say: Callable[[Reply], None]
    ) -> None:
        async def answer() -> None:
            reply = await self._replied(headers, body)
            if reply is None or self._writer.is_closing():
                self._writer.close()
            elif number in self._h2.streams and not self._h2.streams[number].closed:
                say(reply)
                self._flush()
            if self._last is not None and self._answers <= {asyncio.current_task()}:
                self._writer.close()

        task = asyncio.ensure_future(answer())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    def _reset(self, number: int) -> None:
        from h2.errors import ErrorCodes

        self._h2.reset_stream(number, ErrorCodes.INTERNAL_ERROR)

    def _say(self, number: int, reply: Reply) -> None:
        content = b"" if reply.document is None else msgspec.json.encode(reply.document)
        given = (reply.headers or {}).items()
        lines = [(":status", str(reply.status)), *((name.lower(), value) for name, value in given)]
        self._h2.send_headers(number, lines, end_stream=not content)
        if content:
            self._h2.send_data(number, content, end_stream=True)

    def _flush(self) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._h2.data_to_send())

    async def _replied(self, headers: dict[str, str], body: bytes) -> Reply | None:
        """None: the connection is cut."""
        sandbox = self._sandbox
        if apns.is_check(headers):
            await sandbox.wait()
            return apns.checked(headers)
        reference, to, refusal, _ = apns.read(headers, body)
        if refusal is not None:
            sandbox.record(apns.PROTOCOL, reference, to, Outcome.REJECTED)
            await sandbox.wait()
            return refusal
        before = sandbox.deliveries[reference]
        outcome = sandbox.decide(apns.PROTOCOL, reference, to, dedupes=False)
        reply = apns.reply(outcome, headers)
        if sandbox.deliveries[reference] > before:
            message_id = apns.message_id(headers)
            sandbox.keep(Kept(apns.PROTOCOL, reference, message_id, to, datetime.now(UTC)))
        await sandbox.wait()
        if outcome is Outcome.DROPPED:
            return None
        if outcome is Outcome.THROTTLED:
            wait = str(math.ceil(sandbox.faults.retry_after_seconds))
            return reply._replace(headers={"Retry-After": wait})
        return reply
