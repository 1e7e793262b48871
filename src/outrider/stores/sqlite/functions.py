"""Functions that migrations and statements call, and that SQLite does not have itself."""

import hashlib
from typing import Any
from zlib import crc32

import apsw

from outrider.domain.erasure import address_hash
from outrider.domain.event_chain import NO_HASH, next_hash
from outrider.domain.rollouts import draw


class RunningChain:
    """The chain's hash up to each row of a window, which begins with the head before it."""

    def __init__(self) -> None:
        self._hash: bytes | None = None

    def step(self, *given: Any) -> None:
        head, sequence, content = given
        self._hash = next_hash(self._hash or head or NO_HASH, sequence, content)

    def value(self) -> bytes | None:
        return self._hash

    final = value

    def inverse(self, *_: Any) -> None:
        raise AssertionError("a chain begins with the window and only grows")


def add_functions(connection: apsw.Connection) -> None:
    """So that this connection can call them."""

    def sha256(*given: Any) -> Any:
        return hashlib.sha256(str(given[0]).encode()).digest()

    def crc(*given: Any) -> Any:
        return crc32(str(given[0]).encode())

    def lowered(*given: Any) -> Any:
        # SQLite's `lower` only handles ASCII letters.
        return str(given[0]).lower()

    def drawn(*given: Any) -> Any:
        return draw(*given)

    def hashed(*given: Any) -> Any:
        salt, address = given
        return None if address is None else address_hash(salt, address)

    connection.create_scalar_function("sha256", sha256, 1, deterministic=True)
    connection.create_scalar_function("crc32", crc, 1, deterministic=True)
    connection.create_scalar_function("lowered", lowered, 1, deterministic=True)
    connection.create_window_function("outrider_chain", RunningChain, 3)
    connection.create_scalar_function("outrider_draw", drawn, 2, deterministic=True)
    connection.create_scalar_function("outrider_address_hash", hashed, 2, deterministic=True)
