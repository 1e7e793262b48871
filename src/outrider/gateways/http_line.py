"""One connection to an HTTP server: a request's bytes go out, the bytes of one answer come back.

It parses with llhttp, keeps no more of an answer than it may have, and says of itself whether it
can be used again. What is not in its lines: TLS is the transport's, and a redirect is an answer.
"""

import asyncio
from asyncio import Future
from typing import cast

import httptools

from outrider.settings import HTTP_HEADERS_MAX_BYTES

INFORMATIONAL = range(100, 200)
SWITCHING_PROTOCOLS = 101


class LineLost(Exception):
    """The line ended before a byte of an answer, or in the middle of its headers."""


class CutShort(Exception):
    """The line ended within the answer's body."""


class NotHttp(Exception):
    """What came back is no HTTP answer."""


class TooLarge(Exception):
    """The answer's body is larger than any honest one."""


class Raw:
    """An answer as it came."""

    __slots__ = ("body", "retry_after", "status")

    def __init__(self, status: int, body: bytes, retry_after: bytes | None) -> None:
        self.status = status
        self.body = body
        self.retry_after = retry_after


class HttpLine(asyncio.Protocol):
    """Has one call out at a time. The callbacks `on_…` are the parser's."""

    def __init__(self, body_max_bytes: int) -> None:
        self._body_max_bytes = body_max_bytes
        self._loop = asyncio.get_running_loop()
        self._waiting: Future[Raw] | None = None
        self._retry_after: bytes | None = None
        self._body: list[bytes] = []
        self.is_open = False
        self.idle_since = 0.0

    async def exchange(self, request: bytes, seconds: float) -> Raw:
        """Send these bytes and wait for their answer; the line is closed where none came."""
        self._parser = httptools.HttpResponseParser(self)
        self._forget()
        waiting: Future[Raw] = self._loop.create_future()
        self._waiting = waiting
        alarm = self._loop.call_later(seconds, self._fail, TimeoutError())
        self._transport.write(request)
        try:
            return await waiting
        finally:
            alarm.cancel()
            if waiting.cancelled():
                self.close()
            self._waiting = None

    def close(self) -> None:
        """At once, whatever is still to be sent."""
        self.is_open = False
        self._transport.abort()

    # the transport's

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.is_open = True

    def data_received(self, data: bytes) -> None:
        if self._waiting is None or self._waiting.done():
            # Nobody asked: whatever it is, it must not be taken for the next call's answer.
            self.close()
            return
        if not self._has_headers:
            self._header_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            self._fail(error.__context__ or error)
        except httptools.HttpParserUpgrade:
            self.close()
        except httptools.HttpParserError as error:
            self._fail(NotHttp(str(error)))
        else:
            if not self._has_headers and self._header_bytes > HTTP_HEADERS_MAX_BYTES:
                self._fail(NotHttp(f"more than {HTTP_HEADERS_MAX_BYTES} bytes of headers"))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_open = False
        if self._waiting is None or self._waiting.done():
            return
        if not self._has_headers:
            self._fail(LineLost(str(error or "the server closed the connection")))
        elif error is None and self._ends_with_the_line:
            self._waiting.set_result(self._answer())
        else:
            self._fail(CutShort(str(error or "the server closed the connection")))

    # the parser's

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"retry-after":
            self._retry_after = value
        elif name == b"content-length":
            self._ends_with_the_line = False
            if value.isdigit() and int(value) > self._body_max_bytes:
                raise TooLarge
        elif name == b"transfer-encoding":
            self._ends_with_the_line = False

    def on_headers_complete(self) -> None:
        self._has_headers = True

    def on_body(self, part: bytes) -> None:
        self._body.append(part)
        self._body_bytes += len(part)
        if self._body_bytes > self._body_max_bytes:
            raise TooLarge

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status in INFORMATIONAL and status != SWITCHING_PROTOCOLS:
            self._forget()
            return
        assert self._waiting is not None
        if self._waiting.done():
            # A second answer to one request: there is no telling whose the next one would be.
            self.close()
            return
        if not self._parser.should_keep_alive():
            self.is_open = False
        self._waiting.set_result(self._answer())

    def _forget(self) -> None:
        """Of the last answer, nothing is left for the next."""
        self._has_headers = False
        self._header_bytes = 0
        self._ends_with_the_line = True
        self._retry_after = None
        self._body = []
        self._body_bytes = 0

    def _answer(self) -> Raw:
        return Raw(self._parser.get_status_code(), b"".join(self._body), self._retry_after)

    def _fail(self, error: BaseException) -> None:
        self.close()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
