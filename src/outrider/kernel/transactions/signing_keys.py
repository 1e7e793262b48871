"""Signing keys: created once per database on first use, and shared by all processes."""

from datetime import datetime

from outrider.ports.store import Transaction, ask


def find(name: str) -> Transaction[bytes | None]:
    rows = yield from ask("signing_key", name=name)
    return bytes(rows[0][0]) if rows else None


def make(name: str, secret: bytes, now: datetime) -> Transaction[bytes]:
    """The secret under this name: the one given, unless another process was faster."""
    yield from ask("insert_signing_key", name=name, secret=secret, now=now)
    found = yield from find(name)
    assert found is not None
    return found
