"""A server instead of a database: with `--server URL` commands call it over HTTP.

The key comes from OUTRIDER_KEY, or OUTRIDER_ROOT_KEY; refusals are shown in the server's words.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from outrider.cli import texts
from outrider.cli.documents import Document
from outrider.domain.call_results import AttemptError
from outrider.domain.errors import InvalidInput, OutriderError, Problem, StoreUnavailable

if TYPE_CHECKING:
    from outrider.gateways.http import ReceivedAnswer
    from outrider.gateways.http_client import HttpClient

CONNECT_SECONDS = 10.0
REMOTE_SECONDS = 60.0
ANSWER_MAX_BYTES = 256 * 1024 * 1024
UPLOAD_PIECE_BYTES = 256 * 1024
JSON = "application/json"
CREATED = 201
NO_CONTENT = 204
KEY_VARIABLES = ("OUTRIDER_KEY", "OUTRIDER_ROOT_KEY")


class RemoteRefusal(OutriderError):
    """The server's error response, in its own words."""

    def __init__(self, code: str, message: str, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Remote:
    def __init__(self, url: str, key: str, client: "HttpClient") -> None:
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {key}"}
        self._client = client

    async def get(self, *path: str, **query: str | int | None) -> Document:
        _, document = await self._ask("GET", path, query)
        return document

    async def download(self, *path: str, **query: str | int | None) -> bytes:
        """The bytes of a response that is no document."""
        from yarl import URL

        answer = await self._client.ask(
            "GET", URL(self._place(path, query)), headers=self._headers,
            content=b"", content_type=JSON,
        )  # fmt: skip
        status, body = self._checked(answer)
        if status >= 300:
            _document(status, body)
        return body

    async def post(self, *path: str, json: object = None, **query: str | int | None) -> Document:
        content = b"" if json is None else msgspec.json.encode(json)
        _, document = await self._ask("POST", path, query, content)
        return document

    async def post_once(self, *path: str, json: object) -> tuple[Document, bool]:
        """The response, and whether it is new: an existing object is answered with 200."""
        status, document = await self._ask("POST", path, {}, msgspec.json.encode(json))
        return document, status == CREATED

    async def put(self, *path: str, json: object, **query: str | int | None) -> Document:
        _, document = await self._ask("PUT", path, query, msgspec.json.encode(json))
        return document

    async def delete(self, *path: str, **query: str | int | None) -> Document:
        _, document = await self._ask("DELETE", path, query)
        return document

    async def send(self, *path: str, content: bytes, media_type: str) -> Document:
        _, document = await self._ask("POST", path, {}, content, media_type)
        return document

    async def upload(
        self, *path: str, file: Path, media_type: str, **query: str | int | None
    ) -> Document:
        from yarl import URL

        url = URL(self._place(path, query))
        with file.open("rb") as opened:
            length = os.fstat(opened.fileno()).st_size
            answer = await self._client.upload(
                url, _pieces(opened, length), length, media_type, headers=self._headers
            )
        return _document(*self._checked(answer))

    async def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        query: dict[str, str | int | None],
        content: bytes = b"",
        media_type: str = JSON,
    ) -> tuple[int, Document]:
        from yarl import URL

        answer = await self._client.ask(
            method, URL(self._place(path, query)), headers=self._headers,
            content=content, content_type=media_type,
        )  # fmt: skip
        status, body = self._checked(answer)
        return status, _document(status, body)

    def _place(self, path: tuple[str, ...], query: dict[str, str | int | None]) -> str:
        place = "/".join((self._url, "api", "v2", *(quote(step, safe="") for step in path)))
        given = {name: value for name, value in query.items() if value is not None}
        return f"{place}?{urlencode(given)}" if given else place

    def _checked(self, answer: "ReceivedAnswer | AttemptError") -> tuple[int, bytes]:
        if isinstance(answer, AttemptError):
            raise StoreUnavailable(
                texts.Remote.NO_ANSWER.format(url=self._url, reason=answer.detail or answer.code),
                hint=texts.Remote.NO_ANSWER_HINT,
            )
        return answer.status, answer.body


def _pieces(opened: BinaryIO, length: int) -> Iterator[bytes]:
    """As many bytes as were announced, even if the file is being written to."""
    while length > 0 and (piece := opened.read(min(UPLOAD_PIECE_BYTES, length))):
        length -= len(piece)
        yield piece


def _document(status: int, body: bytes) -> Document:
    if status == NO_CONTENT:
        return {}
    try:
        document = msgspec.json.decode(body, type=Document)
    except (msgspec.MsgspecError, RecursionError):
        raise _stranger(status) from None
    if status < 300:
        return document
    error = document.get("error")
    if not isinstance(error, dict) or "message" not in error:
        raise _stranger(status)
    hint = error.get("hint")
    if status == 401:
        hint = texts.Remote.WRONG_KEY_HINT.format(variable=KEY_VARIABLES[0])
    if fields := error.get("fields"):
        problems = [Problem(each["path"], each["message"]) for each in fields]
        raise InvalidInput(error["message"], problems, hint=hint)
    raise RemoteRefusal(error.get("code", f"HTTP_{status}"), error["message"], hint)


def _stranger(status: int) -> StoreUnavailable:
    return StoreUnavailable(
        texts.Remote.NOT_OUTRIDER.format(status=status),
        hint=texts.Remote.NOT_OUTRIDER_HINT,
    )


@asynccontextmanager
async def open_remote(url: str) -> AsyncIterator[Remote]:
    if not _is_address(url):
        raise InvalidInput(texts.Remote.NOT_A_URL.format(url=url), hint=texts.Remote.NOT_A_URL_HINT)
    key = next((found for name in KEY_VARIABLES if (found := os.environ.get(name))), None)
    if key is None:
        raise InvalidInput(
            texts.Remote.NO_KEY,
            hint=texts.Remote.NO_KEY_HINT.format(variable=KEY_VARIABLES[0]),
        )
    if not (key.isascii() and key.isprintable()):
        raise InvalidInput(texts.Remote.NOT_A_KEY)
    # Imported here, because most commands call no server.
    from outrider.gateways.http_client import HttpClient

    client = HttpClient(
        timeout_seconds=REMOTE_SECONDS,
        connect_seconds=CONNECT_SECONDS,
        answer_max_bytes=ANSWER_MAX_BYTES,
    )
    try:
        yield Remote(url, key, client)
    finally:
        await client.close()


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
