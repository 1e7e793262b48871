"""HTTP/2 for providers that speak nothing else: one connection to one origin, with many calls.

As with the HTTP/1.1 client, a connection is found first and permission asked just before the first
byte of a request. A connection stays open; one that has been quiet is asked whether it is alive.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from yarl import URL

from outrider.domain.call_results import AttemptError, NotBegun, Progress
from outrider.gateways.address_guard import connect
from outrider.gateways.failure_words import why
from outrider.gateways.http import ReceivedAnswer
from outrider.gateways.http_client import NOT_BEGUN, HttpClient, code_of
from outrider.gateways.system_trust import trust_of
from outrider.limits.gateways import HTTP_CONNECT_SECONDS, HTTP_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from outrider.gateways.http2_connection import Http2Connection

HTTP2: Final = "h2"
"""Its name in TLS. Without TLS it is spoken at once."""
NOT_SPOKEN: Final = "the server does not speak HTTP/2"

Headers = Sequence[tuple[str, str]]


class Http2Client:
    def __init__(
        self,
        origin: URL,
        client: HttpClient,
        *,
        kept_headers: frozenset[str],
        allow_private: bool = True,
        ca_file: str | None = None,
    ) -> None:
        """Messages are shown to the `client`'s tap, like its own. InvalidInput: the `ca_file`
        cannot be used."""
        self._origin, self._client, self._kept = origin, client, kept_headers
        self._allow_private, self._ca_file = allow_private, ca_file
        if ca_file is not None:
            trust_of(ca_file)
        self._connections: list[Http2Connection] = []
        """One that takes calls, and others that are leaving."""
        self._connecting = asyncio.Lock()
        self._changed = asyncio.Event()

    async def post(
        self,
        url: URL,
        content: bytes,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float | None = None,
        begin: Callable[[], bool],
    ) -> ReceivedAnswer | AttemptError | NotBegun:
        """`timeout_seconds` is for the whole call. `begin` is asked once there is a connection with
        room for it, and no byte is written if it refuses."""
        from outrider.gateways.http2_connection import UNPROCESSED

        until = asyncio.get_running_loop().time() + (timeout_seconds or HTTP_TIMEOUT_SECONDS)
        request = _request(url, content, headers)
        answer = await self._exchange(request, content, until, begin)
        if answer is UNPROCESSED:
            # Permission was given, and nothing was done with it.
            answer = await self._exchange(request, content, until, lambda: True)
        if self._client.tap is not None and not isinstance(answer, NotBegun):
            self._client.tap(_as_text(request) + content, answer)
        return answer

    async def _exchange(
        self, request: Headers, content: bytes, until: float, begin: Callable[[], bool]
    ) -> ReceivedAnswer | AttemptError | NotBegun:
        connect_until = asyncio.get_running_loop().time() + HTTP_CONNECT_SECONDS
        try:
            # Waiting for room counts as connecting.
            async with asyncio.timeout_at(min(connect_until, until)):
                connection = await self._with_room(len(content))
        except (OSError, ValueError) as error:
            return AttemptError(Progress.NOT_SENT, code_of(error), why(error))
        if not begin():
            return NOT_BEGUN
        return await connection.call(request, content, until)

    async def close(self) -> None:
        """Calls in progress end without an answer. The client can be used again."""
        connections, self._connections = self._connections, []
        for each in connections:
            await each.close()

    async def _with_room(self, size: int) -> "Http2Connection":
        while True:
            self._changed.clear()
            self._connections = [each for each in self._connections if not each.is_over]
            current = self._current()
            if current is None:
                await self._connect_once()
            elif not current.takes(size):
                await self._changed.wait()
            elif current.is_fresh:
                return current
            else:
                await current.prove()

    def _current(self) -> "Http2Connection | None":
        return next((each for each in self._connections if not each.is_leaving), None)

    async def _connect_once(self) -> None:
        """However many calls need a connection, one of them makes it."""
        async with self._connecting:
            if self._current() is None:
                made = await self._connect()
                # The list may have been replaced meanwhile.
                self._connections.append(made)

    async def _connect(self) -> "Http2Connection":
        from outrider.gateways.http2_connection import Http2Connection

        host, port = self._origin.raw_host or "", self._origin.port or 0
        tls = trust_of(self._ca_file, HTTP2) if self._origin.scheme == "https" else None
        ready = await connect(host, port, allow_private=self._allow_private)
        try:
            reader, writer = await asyncio.open_connection(
                sock=ready, ssl=tls, server_hostname=host if tls else None
            )
        except BaseException:
            # Not closed: its file descriptor would be reused while a transport still has it.
            with suppress(OSError):
                ready.shutdown(socket.SHUT_RDWR)
            raise
        spoken: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        if spoken is not None and spoken.selected_alpn_protocol() != HTTP2:
            writer.close()
            raise ConnectionResetError(NOT_SPOKEN)
        connection = Http2Connection(reader, writer, self._kept, self._changed.set)
        try:
            await connection.ready()
        except BaseException:
            await connection.close()
            raise
        return connection


def _request(url: URL, content: bytes, headers: Mapping[str, str]) -> Headers:
    return [
        (":method", "POST"),
        (":scheme", url.scheme),
        (":authority", url.host_port_subcomponent or ""),
        (":path", url.raw_path_qs),
        ("user-agent", "outrider"),
        ("content-length", str(len(content))),
        *((name.lower(), value) for name, value in headers.items()),
    ]


def _as_text(request: Headers) -> bytes:
    """As HTTP/1.1 would write it, for people."""
    (_, method), _, (_, host), (_, path), *headers = request
    lines = [f"{method} {path} HTTP/2", *(f"{n}: {v}" for n, v in [("host", host), *headers])]
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")
