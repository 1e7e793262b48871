"""The server's URL and the key, checked before anything is sent."""

import os
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import SplitResult, urlsplit

from outrider_client.calls import Content

TIMEOUT_SECONDS = 60.0
ANSWER_MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Address:
    url: SplitResult

    @property
    def path(self) -> str:
        """A server may be below a path of its proxy."""
        return self.url.path.rstrip("/")


def address_of(url: str) -> Address:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"not the URL of a server: {url!r}")
    return Address(parts)


def authorisation(key: str) -> dict[str, str]:
    if not key or not (key.isascii() and key.isprintable()):
        raise ValueError("an API key is printable ASCII text, such as outrider_…")
    return {"Authorization": f"Bearer {key}"}


def length_of(content: Content, start: int) -> int:
    return (
        len(content) if isinstance(content, bytes) else os.fstat(content.fileno()).st_size - start
    )


def start_of(content: Content) -> int:
    return 0 if isinstance(content, bytes) else content.tell()


def rewound(content: Content, start: int) -> bytes | BinaryIO:
    if not isinstance(content, bytes):
        content.seek(start)
    return content
