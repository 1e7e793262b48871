"""An HTTP/2 server without TLS that answers each request as a test decides."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError

from tests.support.broken_server import Reader, Writer


@dataclass(frozen=True, slots=True)
class Http2Request:
    headers: dict[str, str]
    body: bytes

    @property
    def as_text(self) -> bytes:
        lines = [f"{name}: {value}" for name, value in self.headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + self.body


@dataclass(frozen=True, slots=True)
class Http2Answer:
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class Http2Provider:
    """For `serving`. Bytes instead of an answer are written as they are, which breaks the protocol;
    None breaks the connection."""

    def __init__(self, answer: Callable[[Http2Request], Http2Answer | bytes | None]) -> None:
        self._answer = answer
        self.requests: list[Http2Request] = []

    async def __call__(self, reader: Reader, writer: Writer) -> None:
        connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        heads: dict[int, dict[str, str]] = {}
        bodies: dict[int, bytes] = {}
        while data := await reader.read(65_536):
            try:
                received = connection.receive_data(data)
            except ProtocolError:
                return
            for event in received:
                match event:
                    case events.RequestReceived(stream_id=int(number), headers=list(lines)):
                        heads[number] = {str(name): str(value) for name, value in lines}
                        bodies[number] = b""
                    case events.DataReceived(stream_id=int(number), data=bytes(part)):
                        bodies[number] += part
                        connection.acknowledge_received_data(len(part), number)
                    case events.StreamEnded(stream_id=int(number)):
                        request = Http2Request(heads[number], bodies[number])
                        self.requests.append(request)
                        answer = self._answer(request)
                        if not isinstance(answer, Http2Answer):
                            writer.write(answer or b"")
                            return
                        _say(connection, number, answer)
                    case _:
                        pass
            writer.write(connection.data_to_send())


def _say(connection: H2Connection, number: int, answer: Http2Answer) -> None:
    lines = [(":status", str(answer.status)), *answer.headers]
    connection.send_headers(number, lines, end_stream=not answer.body)
    if answer.body:
        connection.send_data(number, answer.body, end_stream=True)


async def deaf_after_one(reader: Reader, writer: Writer) -> None:
    """Answers one request, and then neither reads nor says anything."""
    connection = H2Connection(H2Configuration(client_side=False))
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    while data := await reader.read(65_536):
        for event in connection.receive_data(data):
            if isinstance(event, events.StreamEnded):
                _say(connection, event.stream_id or 0, ACCEPTED)
                writer.write(connection.data_to_send())
                await asyncio.Event().wait()
        writer.write(connection.data_to_send())


ACCEPTED = Http2Answer(200, headers=(("apns-id", "the-id"),))
