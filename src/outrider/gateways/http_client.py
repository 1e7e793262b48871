"""The shared HTTP client: a JSON document goes out, an `Answer` or an `AttemptError` comes back.

Every failure says how far the call got. A request is written whole and at once, to a connection
that was just open, so there is a definite point before which no byte of it was sent.
"""

import asyncio
import re
import socket
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from time import monotonic

import msgspec
from yarl import URL

from outrider.domain.call_results import AttemptError, NotBegun, Progress
from outrider.domain.own_limits import OWN_LIMIT, is_own_limit
from outrider.gateways.address_guard import AddressRefused, connect
from outrider.gateways.failure_words import why
from outrider.gateways.http import NO_HEADERS, ReceivedAnswer, retry_after_seconds
from outrider.gateways.http_connection import HttpConnection, Raw
from outrider.gateways.system_trust import system_trust
from outrider.limits.gateways import (
    HTTP_ANSWER_MAX_BYTES,
    HTTP_CONNECT_SECONDS,
    HTTP_CONNECTIONS,
    HTTP_IDLE_SECONDS,
    HTTP_TIMEOUT_SECONDS,
)

_BEFORE: tuple[tuple[type[BaseException], str], ...] = (
    (TimeoutError, "connect_timeout"),
    (socket.gaierror, "dns_failure"),
    (ssl.SSLError, "tls_failure"),
    (AddressRefused, "address_refused"),
    (OSError, "connect_failed"),
    # Names that never reach a resolver: a label that is empty or too long.
    (ValueError, "invalid_url"),
)
"""Failures before a byte was sent."""

NOT_BEGUN = NotBegun("withheld")


def _always() -> bool:
    return True


_INVALID_URL = AttemptError(Progress.NOT_SENT, "invalid_url")
_INVALID_HEADER = AttemptError(Progress.NOT_SENT, "invalid_header")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t\x20-\x7e\xa0-\xff]*")
_WORD = re.compile(r"[\x21-\x7e]+")
_STARTS_KEPT = 256
_DESCRIPTIONS = (b"Content-Type:", b"Content-Length:")
WITH_CONTENT = frozenset({"POST", "PUT"})
"""Methods for which some servers require an explicit empty content length."""

Origin = tuple[str, str, int]
"""Scheme, host and port: calls can share connections within one origin."""


class HttpClient:
    """A connection pool for all HTTP gateways; each connection has one call at a time."""

    def __init__(
        self,
        *,
        timeout_seconds: float = HTTP_TIMEOUT_SECONDS,
        connect_seconds: float = HTTP_CONNECT_SECONDS,
        connections: int = HTTP_CONNECTIONS,
        answer_max_bytes: int = HTTP_ANSWER_MAX_BYTES,
        tls: ssl.SSLContext | None = None,
        allow_private: bool = True,
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._connect_seconds = connect_seconds
        self._answer_max_bytes = answer_max_bytes
        self._tls = tls
        self._allow_private = allow_private
        self._connections = connections
        self._free = asyncio.Semaphore(connections)
        self._lines = 0
        """Idle, in use, or connecting: never more than `connections`."""
        self._idle: dict[Origin, list[HttpConnection]] = {}
        self._is_closed = False
        self.tap: Callable[[bytes, Raw | ReceivedAnswer | AttemptError], None] | None = None
        """Is told of every message's request and its answer."""

    async def post_json(
        self,
        url: URL,
        document: object,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        begin: Callable[[], bool] = _always,
    ) -> ReceivedAnswer | AttemptError | NotBegun:
        try:
            body = msgspec.json.encode(document)
        except (ValueError, TypeError, RecursionError) as error:
            # A lone surrogate has no UTF-8 form, so this message can never be sent.
            return AttemptError(Progress.NOT_SENT, "unencodable", _detail(error))
        return await self.post(
            url, body, "application/json", headers=headers, timeout_seconds=timeout_seconds,
            begin=begin,
        )  # fmt: skip

    async def post(
        self,
        url: URL,
        content: bytes,
        content_type: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
        begin: Callable[[], bool] = _always,
    ) -> ReceivedAnswer | AttemptError | NotBegun:
        """`timeout_seconds` is for the whole call, if a target has its own. `begin` is asked once
        the connection is open, and no byte is written if it refuses."""
        head = _head(url, content_type, len(content), headers)
        if isinstance(head, AttemptError):
            return head
        self._is_closed = False
        until = asyncio.get_running_loop().time() + (timeout_seconds or self._timeout_seconds)
        origin = url.scheme, url.raw_host or "", url.port or 0
        try:
            line = await self._line(origin, until)
        except (OSError, ValueError) as error:
            return AttemptError(Progress.NOT_SENT, code_of(error), _detail(error))
        try:
            if not begin():
                return NOT_BEGUN
            raw = await line.exchange(head + content, until)
        finally:
            self._put_back(origin, line)
        if self.tap is not None:
            self.tap(head + content, raw)
        return raw if isinstance(raw, AttemptError) else _read(raw)

    async def close(self) -> None:
        """Calls in progress are not awaited; the client can be used again."""
        self._is_closed = True
        for lines in self._idle.values():
            for line in lines:
                self._drop(line)
        self._idle.clear()

    async def _line(self, origin: Origin, until: float) -> HttpConnection:
        """A connection, reused or new. Waiting for the pool counts as connecting."""
        if not self._free.locked() and (line := self._idle_line(origin)) is not None:
            await self._free.acquire()
            return line
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(min(now + self._connect_seconds, until)):
            await self._free.acquire()
            try:
                return self._idle_line(origin) or await self._new_line(origin)
            except BaseException:
                self._free.release()
                raise

    def _idle_line(self, origin: Origin) -> HttpConnection | None:
        lines = self._idle.get(origin)
        now = monotonic()
        while lines:
            line = lines.pop()
            if now - line.idle_since < HTTP_IDLE_SECONDS and line.is_quiet():
                return line
            self._drop(line)
        return None

    async def _new_line(self, origin: Origin) -> HttpConnection:
        if self._lines >= self._connections:
            self._drop_the_longest_idle()
        self._lines += 1
        try:
            line = await self._connect(origin)
        except BaseException:
            self._lines -= 1
            raise
        # Under TLS a server speaks first: readable bytes may be its session tickets.
        if not (line.is_open if origin[0] == "https" else line.is_quiet()):
            self._drop(line)
            raise ConnectionResetError("the connection closed before anything was sent")
        return line

    async def _connect(self, origin: Origin) -> HttpConnection:
        scheme, host, port = origin
        tls = None
        if scheme == "https":
            tls = self._tls or system_trust()
        loop = asyncio.get_running_loop()
        ready = await connect(host, port, allow_private=self._allow_private)
        try:
            _, line = await loop.create_connection(
                lambda: HttpConnection(self._answer_max_bytes),
                sock=ready,
                ssl=tls,
                server_hostname=host if tls else None,
            )
        except BaseException:
            # Not closed: its file descriptor would be reused while a transport still has it.
            with suppress(OSError):
                ready.shutdown(socket.SHUT_RDWR)
            raise
        return line

    def _put_back(self, origin: Origin, line: HttpConnection) -> None:
        self._free.release()
        if self._is_closed or not line.is_open:
            self._drop(line)
            return
        # The loop's own clock may not advance for a millisecond, which would lose the order.
        line.idle_since = monotonic()
        self._idle.setdefault(origin, []).append(line)

    def _drop_the_longest_idle(self) -> None:
        """Each origin's connections are in the order in which they were returned."""
        self._idle = {origin: lines for origin, lines in self._idle.items() if lines}
        lines = min(self._idle.values(), key=lambda lines: lines[0].idle_since)
        self._drop(lines.pop(0))

    def _drop(self, line: HttpConnection) -> None:
        self._lines -= 1
        line.close()

    async def ask(
        self,
        method: str,
        url: URL,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes = b"",
        content_type: str = "application/json",
        timeout_seconds: float | None = None,
        wants_body: bool = True,
    ) -> ReceivedAnswer | AttemptError:
        """A request that is not a message, sent the same way as one."""
        head = _head(url, content_type, len(content), headers)
        if isinstance(head, AttemptError):
            return head
        until = asyncio.get_running_loop().time() + (timeout_seconds or self._timeout_seconds)
        request = _asking(method, head, content)
        return await self._asked(
            url, until, lambda line: line.exchange(request, until, wants_body=wants_body)
        )

    async def upload(
        self,
        url: URL,
        pieces: Iterable[bytes],
        length: int,
        content_type: str,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> ReceivedAnswer | AttemptError:
        """Posts a body too large for memory; the time limit applies to each chunk and the
        answer."""
        head = _head(url, content_type, length, headers)
        if isinstance(head, AttemptError):
            return head
        seconds = self._timeout_seconds
        until = asyncio.get_running_loop().time() + seconds
        return await self._asked(url, until, lambda line: line.upload(head, pieces, seconds))

    async def _asked(
        self,
        url: URL,
        until: float,
        call: Callable[[HttpConnection], Awaitable[Raw | AttemptError]],
    ) -> ReceivedAnswer | AttemptError:
        self._is_closed = False
        origin = url.scheme, url.raw_host or "", url.port or 0
        try:
            line = await self._line(origin, until)
        except (OSError, ValueError) as error:
            return AttemptError(Progress.NOT_SENT, code_of(error), _detail(error))
        try:
            raw = await call(line)
        finally:
            self._put_back(origin, line)
        return raw if isinstance(raw, AttemptError) else _read(raw)


def code_of(error: OSError | ValueError) -> str:
    if is_own_limit(error):
        return OWN_LIMIT
    return next(code for kind, code in _BEFORE if isinstance(error, kind))


def _head(
    url: URL, content_type: str, length: int, headers: Mapping[str, str] | None
) -> bytes | AttemptError:
    start = _start(url, content_type)
    if isinstance(start, AttemptError):
        return start
    lines = [f"{start}{length}"]
    if headers:
        for name, value in headers.items():
            line = f"{name}: {value}"
            if _HEADER.fullmatch(line) is None:
                return _INVALID_HEADER
            lines.append(line)
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


@lru_cache(_STARTS_KEPT)
def _start(url: URL, content_type: str) -> str | AttemptError:
    """The constant part of every request; anything that would span lines is refused."""
    try:
        host, path = url.host_port_subcomponent or "", url.raw_path_qs
        who = None if url.user is None else f"{url.user}:{url.password or ''}".encode()
    except ValueError:
        return _INVALID_URL
    if url.scheme not in ("http", "https") or host.startswith("."):
        return _INVALID_URL
    if not (_WORD.fullmatch(host) and _WORD.fullmatch(path)):
        return _INVALID_URL
    kind = f"Content-Type: {content_type}"
    if _HEADER.fullmatch(kind) is None:
        return _INVALID_HEADER
    authorization = "" if who is None else f"\r\nAuthorization: Basic {b64encode(who).decode()}"
    # A compressed answer could expand to any size: none is requested and none is expanded.
    return (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: outrider\r\nAccept: */*\r\n"
        f"Accept-Encoding: identity{authorization}\r\n{kind}\r\nContent-Length: "
    )


def _read(raw: Raw) -> ReceivedAnswer:
    location = None if raw.location is None else raw.location.decode("utf-8", "replace")
    date = None if raw.date is None else raw.date.decode("latin-1")
    wait = None
    if raw.retry_after is not None:
        wait = retry_after_seconds(raw.retry_after.decode("latin-1"), datetime.now(UTC))
    headers = NO_HEADERS
    if raw.headers is not None:
        headers = {each.decode(): raw.headers[each].decode("latin-1") for each in raw.headers}
    return ReceivedAnswer(raw.status, raw.body, wait, location, date, headers)


def _detail(error: BaseException) -> str:
    return why(error)


def _asking(method: str, head: bytes, content: bytes) -> bytes:
    """Any method; a request without content sends no content headers, except a POST's length."""
    lines = head.split(b"\r\n")
    lines[0] = method.encode("ascii") + lines[0].removeprefix(b"POST")
    if not content:
        described = (b"Content-Type:",) if method in WITH_CONTENT else _DESCRIPTIONS
        lines = [line for line in lines if not line.startswith(described)]
    return b"\r\n".join(lines) + content
