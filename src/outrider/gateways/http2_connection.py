"""One HTTP/2 connection: many calls at once, each of which says how far it got.

A request is written whole and at once, where the server's windows have room for it. What the server
says it has not processed was not sent (REFUSED_STREAM, or above the last stream of a GOAWAY:
RFC 9113, 8.7); what it has and does not answer is in doubt.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from h2 import events
from h2.config import H2Configuration
from h2.connection import ConnectionState, H2Connection
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError

from outrider.domain.call_results import AttemptError, Progress
from outrider.gateways.http import ReceivedAnswer, retry_after_seconds
from outrider.limits.gateways import (
    HTTP2_FRESH_SECONDS,
    HTTP2_PING_SECONDS,
    HTTP2_READ_BYTES,
    HTTP2_STREAMS_MAX,
    HTTP_ANSWER_MAX_BYTES,
)

if TYPE_CHECKING:
    from hyperframe.frame import Frame, GoAwayFrame

Headers = Sequence[tuple[str, str]]

_LOST: Final = AttemptError(Progress.SENT_NO_ANSWER, "connection_lost", "the connection ended")
_RESET: Final = AttemptError(Progress.SENT_NO_ANSWER, "connection_lost", "the server reset it")
_TIMEOUT: Final = AttemptError(
    Progress.SENT_NO_ANSWER, "timeout", "no answer within the time limit"
)
_TOO_LARGE: Final = AttemptError(
    Progress.SENT_NO_ANSWER, "invalid_answer", f"more than {HTTP_ANSWER_MAX_BYTES} bytes"
)
UNPROCESSED: Final = AttemptError(
    Progress.NOT_SENT, "stream_refused", "the server says that it did not process it"
)
_INVALID: Final = AttemptError(Progress.NOT_SENT, "invalid_header")
STREAM_ID_MAX: Final = 2**31 - 1


class _Protocol(H2Connection):
    """Reads on after a GOAWAY: the answers to what the server did take are still to come. The
    library itself would read nothing more."""

    def _receive_goaway_frame(
        self, frame: "GoAwayFrame"
    ) -> "tuple[list[Frame], list[events.Event]]":
        found = super()._receive_goaway_frame(frame)
        self.state_machine.state = ConnectionState.CLIENT_OPEN
        return found


@dataclass(slots=True, eq=False)
class _Stream:
    answer: "asyncio.Future[ReceivedAnswer | AttemptError]"
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)


class Http2Connection:
    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        kept_headers: frozenset[str],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called when there may be room for another call, or never again."""
        self._reader, self._writer = reader, writer
        self._kept, self._changed = kept_headers, changed
        self._h2 = _Protocol(H2Configuration(header_encoding="utf-8"))
        self._streams: dict[int, _Stream] = {}
        self._is_leaving = False
        loop = asyncio.get_running_loop()
        self._settings: asyncio.Future[None] = loop.create_future()
        self._pong: asyncio.Future[None] | None = None
        self._heard_at = loop.time()
        self._h2.initiate_connection()
        self._flush()
        self._task = asyncio.ensure_future(self._listen())

    async def ready(self) -> None:
        """The server's settings are the first that it says, if it speaks HTTP/2 at all."""
        await asyncio.wait({self._settings, self._task}, return_when=asyncio.FIRST_COMPLETED)
        if not self._settings.done():
            raise ConnectionResetError("the server does not speak HTTP/2")

    @property
    def is_leaving(self) -> bool:
        """It takes no new calls; those in progress may still be answered."""
        return self._is_leaving or self._task.done() or self._writer.is_closing()

    @property
    def is_over(self) -> bool:
        """Nothing more can be sent or received."""
        return self._task.done()

    @property
    def is_fresh(self) -> bool:
        """A connection that was quiet for long may be dead without anybody having said so."""
        return asyncio.get_running_loop().time() - self._heard_at < HTTP2_FRESH_SECONDS

    def takes(self, size: int) -> bool:
        if self.is_leaving:
            return False
        streams = min(self._h2.remote_settings.max_concurrent_streams, HTTP2_STREAMS_MAX)
        window = min(
            self._h2.outbound_flow_control_window, self._h2.remote_settings.initial_window_size
        )
        return len(self._streams) < streams and size <= window

    async def call(
        self, headers: Headers, body: bytes, until: float
    ) -> ReceivedAnswer | AttemptError:
        """Only if it `takes` the body, and the caller has not waited for anything since."""
        number = self._h2.get_next_available_stream_id()
        if number + 2 > STREAM_ID_MAX:
            self._is_leaving = True
        stream = _Stream(asyncio.get_running_loop().create_future())
        self._streams[number] = stream
        try:
            self._write(number, headers, body)
        except ProtocolError:
            # The library refuses a header; the server has not seen the end of the request.
            self._abandon(number)
            return _INVALID
        try:
            async with asyncio.timeout_at(until):
                return await stream.answer
        except TimeoutError:
            return _TIMEOUT
        finally:
            self._abandon(number)

    def _write(self, number: int, headers: Headers, body: bytes) -> None:
        self._h2.send_headers(number, headers)
        most = self._h2.max_outbound_frame_size
        for start in range(0, len(body), most):
            self._h2.send_data(number, body[start : start + most])
        self._h2.end_stream(number)
        self._flush()

    def _abandon(self, number: int) -> None:
        """Nobody waits for its answer any more."""
        if self._streams.pop(number, None) is not None and not self.is_over:
            with contextlib.suppress(ProtocolError):
                self._h2.reset_stream(number, ErrorCodes.CANCEL)
            self._flush()
            self._changed()

    async def prove(self) -> None:
        """It answers a ping, or it ends."""
        pong = self._pong
        if pong is None:
            pong = self._pong = asyncio.get_running_loop().create_future()
            self._h2.ping(b"outrider")
            self._flush()
        await asyncio.wait(
            {pong, self._task},
            timeout=HTTP2_PING_SECONDS,
            return_when=asyncio.FIRST_COMPLETED,
        )
        if not pong.done():
            await self.close()

    def _flush(self) -> None:
        if not self._writer.is_closing():
            self._writer.write(self._h2.data_to_send())

    async def _listen(self) -> None:
        try:
            while data := await self._reader.read(HTTP2_READ_BYTES):
                self._heard_at = asyncio.get_running_loop().time()
                for event in self._h2.receive_data(data):
                    self._happened(event)
                self._flush()
                self._changed()
                if self._is_leaving and not self._streams:
                    return
        except (OSError, ProtocolError):
            # What the library would say of it to the server.
            self._flush()
        finally:
            for number in list(self._streams):
                self._settle(number, _LOST)
            self._writer.close()
            self._changed()

    def _happened(self, event: events.Event) -> None:
        match event:
            case events.RemoteSettingsChanged():
                if not self._settings.done():
                    self._settings.set_result(None)
            case events.ResponseReceived():
                self._answered(event)
            case events.DataReceived():
                self._received(event)
            case events.StreamEnded():
                self._settle(event.stream_id)
            case events.StreamReset():
                is_refused = event.error_code == ErrorCodes.REFUSED_STREAM
                self._settle(event.stream_id, UNPROCESSED if is_refused else _RESET)
            case events.ConnectionTerminated():
                self._is_leaving = True
                last = event.last_stream_id or 0
                for number in [each for each in self._streams if each > last]:
                    self._settle(number, UNPROCESSED)
            case events.PingAckReceived():
                if self._pong is not None:
                    self._pong.set_result(None)
                    self._pong = None
            case _:
                pass

    def _answered(self, event: events.ResponseReceived) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None:
            said = {_text(name): _text(value) for name, value in event.headers or ()}
            status = said.get(":status", "")
            stream.status = int(status) if status.isdecimal() else 0
            stream.headers = said

    def _received(self, event: events.DataReceived) -> None:
        if event.flow_controlled_length:
            self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        stream = self._streams.get(event.stream_id)
        if stream is not None and len(stream.body) <= HTTP_ANSWER_MAX_BYTES:
            stream.body += event.data or b""

    def _settle(self, number: int, error: AttemptError | None = None) -> None:
        stream = self._streams.pop(number, None)
        if stream is None or stream.answer.done():
            return
        if error is None and len(stream.body) > HTTP_ANSWER_MAX_BYTES:
            error = _TOO_LARGE
        stream.answer.set_result(error or self._read(stream))

    def _read(self, stream: _Stream) -> ReceivedAnswer:
        wait = stream.headers.get("retry-after")
        return ReceivedAnswer(
            stream.status,
            bytes(stream.body),
            None if wait is None else retry_after_seconds(wait, datetime.now(UTC)),
            headers={name: stream.headers[name] for name in self._kept if name in stream.headers},
        )

    async def close(self) -> None:
        """Calls in progress end without an answer."""
        self._task.cancel()
        await asyncio.wait({self._task})


def _text(value: bytes | str) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
