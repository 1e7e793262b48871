"""A server instead of a database: `--server URL` makes commands ask it over HTTP.

The key comes from OUTRIDER_KEY, or OUTRIDER_ROOT_KEY; what the server refuses is told in its words.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec

from outrider.cli.documents import Document
from outrider.domain.errors import InvalidInput, OutriderError, Problem, StoreUnavailable

if TYPE_CHECKING:
    import aiohttp

CONNECT_SECONDS = 10.0
REMOTE_SECONDS = 60.0
UPLOAD_PIECE_BYTES = 256 * 1024
CREATED = 201
NO_CONTENT = 204
KEY_VARIABLES = ("OUTRIDER_KEY", "OUTRIDER_ROOT_KEY")


class RemoteRefusal(OutriderError):
    """What the server answered instead, in its own words."""

    def __init__(self, code: str, message: str, hint: str | None) -> None:
        super().__init__(message, hint=hint)
        self.code = code


class Remote:
    def __init__(self, url: str, session: "aiohttp.ClientSession") -> None:
        self._url = url.rstrip("/")
        self._session = session

    async def get(self, *path: str, **query: str | int | None) -> Document:
        _, document = await self._ask("GET", path, query)
        return document

    async def post(self, *path: str, json: object = None, **query: str | int | None) -> Document:
        data = None if json is None else msgspec.json.encode(json)
        _, document = await self._ask("POST", path, query, data, "application/json")
        return document

    async def post_once(self, *path: str, json: object) -> tuple[Document, bool]:
        """The answer, and whether it is new: what was there before is answered with 200."""
        data = msgspec.json.encode(json)
        status, document = await self._ask("POST", path, {}, data, "application/json")
        return document, status == CREATED

    async def put(self, *path: str, json: object, **query: str | int | None) -> Document:
        data = msgspec.json.encode(json)
        _, document = await self._ask("PUT", path, query, data, "application/json")
        return document

    async def delete(self, *path: str, **query: str | int | None) -> Document:
        _, document = await self._ask("DELETE", path, query)
        return document

    async def send(self, *path: str, content: bytes, media_type: str) -> Document:
        _, document = await self._ask("POST", path, {}, content, media_type)
        return document

    async def upload(self, *path: str, file: Path, media_type: str) -> Document:
        with file.open("rb") as opened:
            _, document = await self._ask("POST", path, {}, _pieces(opened), media_type)
        return document

    async def _ask(
        self,
        method: str,
        path: tuple[str, ...],
        query: dict[str, str | int | None],
        data: Any = None,
        media_type: str | None = None,
    ) -> tuple[int, Document]:
        import aiohttp

        url = "/".join((self._url, "api", "v2", *(quote(step, safe="") for step in path)))
        given = {name: str(value) for name, value in query.items() if value is not None}
        headers = {"Content-Type": media_type} if data is not None and media_type else {}
        try:
            async with self._session.request(
                method, url, params=given, data=data, headers=headers, allow_redirects=False
            ) as response:
                body = await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise StoreUnavailable(
                f"the server at {self._url} does not answer: {str(error) or type(error).__name__}",
                hint="check --server, and that `outrider serve` runs there",
            ) from error
        return response.status, _document(response.status, body)


async def _pieces(opened: Any) -> AsyncIterator[bytes]:
    while piece := opened.read(UPLOAD_PIECE_BYTES):
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
        hint = f"set {KEY_VARIABLES[0]} to a key of that server"
    if fields := error.get("fields"):
        problems = [Problem(each["path"], each["message"]) for each in fields]
        raise InvalidInput(error["message"], problems, hint=hint)
    raise RemoteRefusal(error.get("code", f"HTTP_{status}"), error["message"], hint)


def _stranger(status: int) -> StoreUnavailable:
    return StoreUnavailable(
        f"what answered {status} is not an Outrider server",
        hint="check --server: is there an `outrider serve`?",
    )


@asynccontextmanager
async def open_remote(url: str) -> AsyncIterator[Remote]:
    if not _is_address(url):
        raise InvalidInput(f"'{url}' is no server's address", hint="write http://HOST:PORT")
    key = next((found for name in KEY_VARIABLES if (found := os.environ.get(name))), None)
    if key is None:
        raise InvalidInput(
            "a server wants a key", hint=f"set {KEY_VARIABLES[0]}; `outrider key create` makes one"
        )
    if not (key.isascii() and key.isprintable()):
        raise InvalidInput("the key cannot be one: it has characters that no key has")
    # A fifth of a command's start, for those who ask a server only.
    import aiohttp

    timeout = aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_SECONDS, sock_read=REMOTE_SECONDS
    )
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as session:
        yield Remote(url, session)


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
