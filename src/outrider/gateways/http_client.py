"""The shared HTTP client: a JSON document goes out, an `Answer` or an `AttemptError` comes back.

Every failure says how far the call got, and the request's body is the witness: aiohttp sends the
headers and the body in one write, so a body never asked for means that no byte of the call left.
"""

import ssl
from collections.abc import Mapping
from datetime import UTC, datetime

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from outrider.domain.submission import AttemptError, Progress
from outrider.gateways.address_guard import AddressRefused, guarded_socket
from outrider.gateways.http import Answer, retry_after_seconds
from outrider.settings import (
    ERROR_DETAIL_MAX_CHARACTERS,
    HTTP_ANSWER_MAX_BYTES,
    HTTP_CONNECT_SECONDS,
    HTTP_CONNECTIONS,
    HTTP_TIMEOUT_SECONDS,
)

_CODES: tuple[tuple[type[BaseException], str], ...] = (
    (aiohttp.ConnectionTimeoutError, "connect_timeout"),
    (TimeoutError, "timeout"),
    (aiohttp.ClientConnectorDNSError, "dns_failure"),
    (aiohttp.ClientSSLError, "tls_failure"),
    (aiohttp.ClientConnectorCertificateError, "tls_failure"),
    (aiohttp.ClientConnectorError, "connect_failed"),
    (aiohttp.InvalidURL, "invalid_url"),
    (aiohttp.ClientPayloadError, "answer_cut_short"),
    (aiohttp.ClientResponseError, "invalid_answer"),
)


class _Body(aiohttp.BytesPayload):
    """A request's body that knows whether it was ever handed to a living socket."""

    left = False

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        transport = writer.transport
        self.left = transport is not None and not transport.is_closing()
        await super().write_with_length(writer, content_length)


class HttpClient:
    """A pool of connections for all HTTP gateways; its session is made inside the running loop."""

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
        # `connect` includes the wait for a free connection of the pool.
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds, connect=connect_seconds)
        self._connections = connections
        self._answer_max_bytes = answer_max_bytes
        self._tls = tls
        self._allow_private = allow_private
        self._session: aiohttp.ClientSession | None = None

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
        body = _Body(content, content_type=content_type)
        try:
            session = self._session or self._open()
            timeout = self._timeout_of(timeout_seconds)
            async with session.post(
                url, data=body, headers=headers, allow_redirects=False, timeout=timeout
            ) as response:
                answer = await self._read(response)
                if answer is None:
                    detail = f"more than {self._answer_max_bytes} bytes"
                    return AttemptError(Progress.ANSWERED, "answer_too_large", detail)
                retry_after = response.headers.get("Retry-After")
                return Answer(
                    response.status,
                    answer,
                    retry_after_seconds(retry_after, datetime.now(UTC)) if retry_after else None,
                )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return AttemptError(_progress(body, error), _code(error), _detail(error))

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _timeout_of(self, seconds: float | None) -> aiohttp.ClientTimeout:
        if seconds is None:
            return self._timeout
        return aiohttp.ClientTimeout(total=seconds, connect=self._timeout.connect)

    def _open(self) -> aiohttp.ClientSession:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=self._connections,
                ssl=self._tls or True,
                # Where the guard sees each address that is really connected to, whoever spelt it.
                socket_factory=None if self._allow_private else guarded_socket,
            ),
            timeout=self._timeout,
            # No cookie is worth keeping here, and a proxy is configured, never inherited.
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            # A compressed answer could unfold to any size: none is asked for and none is unfolded.
            auto_decompress=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "outrider"},
        )
        return self._session

    async def _read(self, response: aiohttp.ClientResponse) -> bytes | None:
        """The whole body, or None where it is larger than any honest answer."""
        length = response.content_length
        if length is not None:
            return await response.read() if length <= self._answer_max_bytes else None
        content = bytearray()
        async for chunk in response.content.iter_any():
            content += chunk
            if len(content) > self._answer_max_bytes:
                return None
        return bytes(content)


def _progress(body: _Body, error: Exception) -> Progress:
    if not body.left:
        return Progress.NOT_SENT
    # Bytes that are not HTTP are an answer all the same; half an answer is none.
    garbage = isinstance(error, aiohttp.ClientResponseError)
    return Progress.ANSWERED if garbage else Progress.SENT_NO_ANSWER


def _code(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, AddressRefused
    ):
        return "address_refused"
    return next((code for kind, code in _CODES if isinstance(error, kind)), "connection_lost")


def _detail(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:ERROR_DETAIL_MAX_CHARACTERS]
