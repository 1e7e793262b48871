"""One call of the API as a value: what is sent, and the type of the answer."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, BinaryIO, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

Answer = TypeVar("Answer")
Content = bytes | BinaryIO
"""What is uploaded: bytes, or a file that was opened for reading bytes and can be read again."""

PREFIX = "/api/v2"
JSON = "application/json"
IDEMPOTENCY_KEY = "X-Idempotency-Key"


@dataclass(frozen=True)
class Call(Generic[Answer]):
    """Every call may be repeated: it reads, or it has a key or an ID that makes it happen once."""

    method: str
    path: str
    answer: type[Answer]
    headers: Mapping[str, str] = field(default_factory=dict)
    content: Content = b""

    def decoded(self, body: bytes) -> Answer:
        if self.answer is bytes:
            return body  # type: ignore[return-value]
        if self.answer is type(None):
            return None
        return msgspec.json.decode(body, type=self.answer)


def call(
    method: str,
    path: tuple[str, ...],
    answer: type[Answer],
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    content: Content | None = None,
    media_type: str = JSON,
    idempotency_key: str | None = None,
    keyed: bool = False,
) -> Call[Answer]:
    """`keyed`: the server takes an idempotency key; one is made if the caller has none."""
    headers = {}
    if keyed:
        headers[IDEMPOTENCY_KEY] = idempotency_key or secrets.token_urlsafe(16)
    if content is None:
        content = b"" if body is None else msgspec.json.encode(body)
    if content != b"" or body is not None:
        headers["Content-Type"] = media_type
    return Call(method, _address(path, query or {}), answer, headers, content)


def _address(path: tuple[str, ...], query: Mapping[str, Any]) -> str:
    address = "/".join((PREFIX, *(quote(step, safe="") for step in path)))
    given = {name: _text(value) for name, value in query.items() if value is not None}
    return f"{address}?{urlencode(given)}" if given else address


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value if isinstance(value, Enum) else value)
