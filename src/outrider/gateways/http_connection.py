"""One connection to an HTTP server: a request's bytes go out, the bytes of one answer come back.

It parses with llhttp, keeps a bounded amount of an answer, and knows whether it can be reused. TLS
is left to the transport, and a redirect is just an answer.
"""

import asyncio
import select
from asyncio import Future
from collections.abc import Iterable
from typing import cast

import httptools

from outrider.domain.call_results import AttemptError, Progress
from outrider.gateways.http import HEADERS_KEPT
from outrider.limits.gateways import HTTP_HEADERS_MAX_BYTES

INFORMATIONAL = range(100, 200)
SWITCHING_PROTOCOLS = 101
LENGTH_MAX_DIGITS = 20
"""The parser refuses larger numbers: a longer text has leading zeros, possibly thousands."""

_TIMEOUT = AttemptError(Progress.SENT_NO_ANSWER, "timeout", "no answer within the time limit")


class Raw:
    """An answer as received."""

    __slots__ = ("body", "date", "headers", "location", "retry_after", "status")

    def __init__(
        self, status: int, body: bytes, retry_after: bytes | None, location: bytes | None,
        date: bytes | None, headers: dict[bytes, bytes] | None,
    ) -> None:  # fmt: skip
        self.status = status
        self.body = body
        self.retry_after = retry_after
        self.location = location
        self.date = date
        self.headers = headers


class HttpConnection(asyncio.Protocol):
    """Has one call at a time. The callbacks `on_…` are the parser's."""

    def __init__(self, body_max_bytes: int) -> None:
        self._body_max_bytes = body_max_bytes
        self._loop = asyncio.get_running_loop()
        self._waiting: Future[Raw | AttemptError] | None = None
        self._retry_after: bytes | None = None
        self._location: bytes | None = None
        self._date: bytes | None = None
        self._headers: dict[bytes, bytes] | None = None
        self._body: list[bytes] = []
        self._wants_body = True
        self._has_room = asyncio.Event()
        self._has_room.set()
        self.is_open = False
        self.idle_since = 0.0

    async def exchange(
        self, request: bytes, until: float, *, wants_body: bool = True
    ) -> Raw | AttemptError:
        """Send these bytes and wait for the answer; closes the connection if none came, or if the
        caller does not want the answer's body."""
        self._forget()
        self._wants_body = wants_body
        self._bytes_without_body = 0
        waiting: Future[Raw | AttemptError] = self._loop.create_future()
        self._waiting = waiting
        alarm = self._loop.call_at(until, self._fail, _TIMEOUT)
        self._transport.write(request)
        try:
            return await waiting
        finally:
            alarm.cancel()
            if waiting.cancelled():
                self.close()
            self._waiting = None

    async def upload(
        self, head: bytes, pieces: Iterable[bytes], patience_seconds: float
    ) -> Raw | AttemptError:
        """The same for a request too large for memory: a server that takes no chunk, or gives no
        answer, for this many seconds is abandoned."""
        self._forget()
        self._wants_body = True
        self._bytes_without_body = 0
        waiting: Future[Raw | AttemptError] = self._loop.create_future()
        self._waiting = waiting
        try:
            self._transport.write(head)
            for piece in pieces:
                async with asyncio.timeout(patience_seconds):
                    await self._has_room.wait()
                if waiting.done():
                    # It answered without having read everything, and would take the rest for a
                    # request.
                    self.close()
                    break
                self._transport.write(piece)
            async with asyncio.timeout(patience_seconds):
                return await waiting
        except TimeoutError:
            self.close()
            return _TIMEOUT
        finally:
            if not waiting.done() or waiting.cancelled():
                self.close()
            self._waiting = None

    def is_quiet(self) -> bool:
        """Open, everything sent, and nothing received: neither bytes nor an unread close."""
        return self.is_open and self._poll.poll(0) == self._only_writable

    def close(self) -> None:
        """At once, discarding unsent data."""
        self.is_open = False
        self._transport.abort()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        handle = transport.get_extra_info("socket").fileno()
        self._poll = select.poll()
        self._poll.register(handle, select.POLLIN | select.POLLOUT)
        self._only_writable = [(handle, select.POLLOUT)]
        self._parser = httptools.HttpResponseParser(self)
        # Sloppy answers are accepted: refusing one would repeat a call that was carried out.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self.is_open = True

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            # Unsolicited: whatever it is, it must not be taken for the next call's answer.
            self.close()
            return
        body_bytes = self._body_bytes
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.close()
        except httptools.HttpParserError as error:
            self._fail_with(Progress.ANSWERED, "invalid_answer", str(error))
        if self._body_bytes != body_bytes:
            self._bytes_without_body = 0
            return
        # Headers, trailers, and anything else a server can send without end.
        self._bytes_without_body += len(data)
        if self._bytes_without_body > HTTP_HEADERS_MAX_BYTES:
            detail = f"more than {HTTP_HEADERS_MAX_BYTES} bytes of headers"
            self._fail_with(Progress.ANSWERED, "invalid_answer", detail)

    def eof_received(self) -> None:
        """Comes before the connection is lost: from here on, nothing may be written to it."""
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(error)
        self._has_room.set()
        # The parser references this connection: dropping the reference frees it at once.
        del self._parser

    # Called by the parser

    def on_message_begin(self) -> None:
        if self._waiting is None or self._waiting.done():
            # A second answer to one request: the next call could not tell its own apart.
            self.close()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_headers:
            return  # a trailer
        name = name.lower()
        if name == b"retry-after":
            self._retry_after = value
        elif name == b"content-length":
            self._ends_with_the_line = False
            short = len(value) <= LENGTH_MAX_DIGITS
            too_large = short and value.isdigit() and int(value) > self._body_max_bytes
            if too_large and self._wants_body:
                self._fail_too_large()
        elif name == b"transfer-encoding":
            self._ends_with_the_line = b"chunked" not in value.lower()
        elif name == b"location":
            self._location = value
        elif name == b"date":
            self._date = value
        elif name in HEADERS_KEPT:
            self._headers = {**(self._headers or {}), name: value}

    def on_headers_complete(self) -> None:
        self._has_headers = True
        if not self._wants_body and self._parser.get_status_code() not in INFORMATIONAL:
            self._answer_without_body()

    def on_body(self, part: bytes) -> None:
        self._body.append(part)
        self._body_bytes += len(part)
        if self._body_bytes > self._body_max_bytes:
            self._fail_too_large()

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status in INFORMATIONAL and status != SWITCHING_PROTOCOLS:
            self._forget()
            return
        if self._waiting is None or self._waiting.done():
            return
        # A server that answered before it had read everything may never read the rest.
        if not self._parser.should_keep_alive() or self._transport.get_write_buffer_size():
            self.is_open = False
        self._waiting.set_result(self._answer())

    def _forget(self) -> None:
        """Clear the previous answer."""
        self._has_headers = False
        self._ends_with_the_line = True
        self._retry_after = None
        self._location = None
        self._date = None
        self._headers = None
        self._body = []
        self._body_bytes = 0

    def _answer(self) -> Raw:
        body, status = b"".join(self._body), self._parser.get_status_code()
        return Raw(status, body, self._retry_after, self._location, self._date, self._headers)

    def _answer_without_body(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(self._answer())
        self.close()

    def _end(self, error: Exception | None) -> None:
        self.is_open = False
        if self._waiting is None or self._waiting.done():
            return
        if self._has_headers and self._ends_with_the_line and error is None:
            self._waiting.set_result(self._answer())
            return
        # An incomplete answer is no answer.
        code = "answer_cut_short" if self._has_headers else "connection_lost"
        detail = str(error or "the server closed the connection")
        self._fail_with(Progress.SENT_NO_ANSWER, code, detail)

    def _fail_too_large(self) -> None:
        detail = f"more than {self._body_max_bytes} bytes"
        self._fail_with(Progress.ANSWERED, "answer_too_large", detail)

    def _fail_with(self, progress: Progress, code: str, detail: str) -> None:
        self._fail(AttemptError(progress, code, detail))

    def _fail(self, error: AttemptError) -> None:
        self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(error)
