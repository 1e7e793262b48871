"""The shared HTTP client: a JSON document goes out, an `Answer` or an `AttemptError` comes back.

Every failure says how far the call got. A request is written whole and at once, to a line that was
open a moment before, so there is one moment before which not a byte of it has left.
"""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec
from yarl import URL

from outrider.domain.submission import AttemptError, Progress
from outrider.domain.texts import breaks_header
from outrider.gateways.address_guard import AddressRefused, connect
from outrider.gateways.http import Answer, retry_after_seconds
from outrider.gateways.http_line import CutShort, HttpLine, LineLost, NotHttp, Raw, TooLarge
from outrider.settings import (
    ERROR_DETAIL_MAX_CHARACTERS,
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
)
"""What goes wrong before a byte has left."""
_AFTER: tuple[tuple[type[BaseException], Progress, str], ...] = (
    (TooLarge, Progress.ANSWERED, "answer_too_large"),
    # Bytes that are not HTTP are an answer all the same; half an answer is none.
    (NotHttp, Progress.ANSWERED, "invalid_answer"),
    (CutShort, Progress.SENT_NO_ANSWER, "answer_cut_short"),
    (LineLost, Progress.SENT_NO_ANSWER, "connection_lost"),
    (TimeoutError, Progress.SENT_NO_ANSWER, "timeout"),
)

Origin = tuple[str, str, int]
"""Scheme, host and port: whose connections can be used for whose calls."""


class HttpClient:
    """A pool of connections for all HTTP gateways, each of which has one call out at a time."""

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
        self._idle: dict[Origin, list[HttpLine]] = {}

    async def post_json(
        self,
        url: URL,
        document: object,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer | AttemptError:
        try:
            body = msgspec.json.encode(document)
        except (ValueError, TypeError, RecursionError) as error:
            # A lone surrogate has no UTF-8 form, so this message can never be put on a line.
            return AttemptError(Progress.NOT_SENT, "unencodable", _detail(error))
        return await self.post(
            url, body, "application/json", headers=headers, timeout_seconds=timeout_seconds
        )

    async def post(
        self,
        url: URL,
        content: bytes,
        content_type: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer | AttemptError:
        """`timeout_seconds` is for the whole call, where a target has its own."""
        head = _head(url, content_type, len(content), headers)
        if head is None:
            return AttemptError(Progress.NOT_SENT, "invalid_header")
        loop = asyncio.get_running_loop()
        until = loop.time() + (timeout_seconds or self._timeout_seconds)
        origin = url.scheme, url.raw_host or "", url.port or 0
        try:
            line = await self._line(origin, until)
        except OSError as error:
            code = next(code for kind, code in _BEFORE if isinstance(error, kind))
            return AttemptError(Progress.NOT_SENT, code, _detail(error))
        try:
            raw = await line.exchange(head + content, until - loop.time())
        except (TooLarge, NotHttp, CutShort, LineLost, TimeoutError) as error:
            progress, code = next(told[1:] for told in _AFTER if isinstance(error, told[0]))
            return AttemptError(progress, code, _detail(error))
        finally:
            self._put_back(origin, line)
        return _read(raw)

    async def close(self) -> None:
        """Calls that are out are not waited for; the client can be used again."""
        for lines in self._idle.values():
            for line in lines:
                line.close()
        self._idle.clear()

    async def _line(self, origin: Origin, until: float) -> HttpLine:
        """A line of our own, there already or new. Waiting for the pool is part of connecting."""
        if not self._free.locked() and (line := self._idle_line(origin)) is not None:
            await self._free.acquire()
            return line
        now = asyncio.get_running_loop().time()
        async with asyncio.timeout_at(min(now + self._connect_seconds, until)):
            await self._free.acquire()
            try:
                return self._idle_line(origin) or await self._connect(origin)
            except BaseException:
                self._free.release()
                raise

    def _idle_line(self, origin: Origin) -> HttpLine | None:
        lines = self._idle.get(origin)
        now = asyncio.get_running_loop().time()
        while lines:
            line = lines.pop()
            if line.is_open and now - line.idle_since < HTTP_IDLE_SECONDS:
                return line
            line.close()
        return None

    async def _connect(self, origin: Origin) -> HttpLine:
        scheme, host, port = origin
        tls = None
        if scheme == "https":
            tls = self._tls = self._tls or ssl.create_default_context()
        loop = asyncio.get_running_loop()
        ready = await connect(host, port, allow_private=self._allow_private)
        try:
            _, line = await loop.create_connection(
                lambda: HttpLine(self._answer_max_bytes),
                sock=ready,
                ssl=tls,
                server_hostname=host if tls else None,
            )
        except BaseException:
            ready.close()
            raise
        return line

    def _put_back(self, origin: Origin, line: HttpLine) -> None:
        self._free.release()
        if not line.is_open or sum(map(len, self._idle.values())) >= self._connections:
            line.close()
            return
        line.idle_since = asyncio.get_running_loop().time()
        self._idle.setdefault(origin, []).append(line)


def _head(
    url: URL, content_type: str, length: int, headers: Mapping[str, str] | None
) -> bytes | None:
    """The request's head; None where a header would be more than one line."""
    own = [f"{name}: {value}" for name, value in headers.items()] if headers else []
    if url.user is not None:
        who = b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
        own.append(f"Authorization: Basic {who}")
    if any(map(breaks_header, own)):
        return None
    # A compressed answer could unfold to any size: none is asked for and none is unfolded.
    lines = [
        f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}",
        "User-Agent: outrider\r\nAccept: */*\r\nAccept-Encoding: identity",
        f"Content-Type: {content_type}\r\nContent-Length: {length}",
        *own,
    ]
    try:
        return "\r\n".join([*lines, "", ""]).encode("latin-1")
    except UnicodeEncodeError:
        return None


def _read(raw: Raw) -> Answer:
    if raw.retry_after is None:
        return Answer(raw.status, raw.body)
    header = raw.retry_after.decode("latin-1")
    return Answer(raw.status, raw.body, retry_after_seconds(header, datetime.now(UTC)))


def _detail(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:ERROR_DETAIL_MAX_CHARACTERS]
