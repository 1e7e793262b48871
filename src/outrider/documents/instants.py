"""Instants in user input: RFC 3339 with a zone, and nothing that only looks like it."""

import re
from datetime import UTC, datetime
from typing import Any

from outrider.domain.sending_hours import zone_named

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)?\Z", re.ASCII
)


_LOCAL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?\Z", re.ASCII)


def local_time(given: str) -> str:
    """A time on the wall: without a zone, because each recipient has one."""
    if not _LOCAL.match(given):
        raise ValueError("should be a local time such as 2026-12-01T09:00, without a time zone")
    try:
        datetime.fromisoformat(given)
    except ValueError:
        raise ValueError("is not a time that exists") from None
    return given


def known_zone(name: str) -> str:
    if zone_named(name) is None:
        raise ValueError("is not a time zone; use one such as Europe/Amsterdam")
    return name


def instant(given: Any) -> Any:
    """A "before" validator: returns the time in UTC, or raises a ValueError that says why not."""
    if given is None or isinstance(given, datetime):
        return given
    match = _RFC3339.match(given) if isinstance(given, str) else None
    if match is None:
        raise ValueError("should be a time such as 2026-12-01T09:00:00Z")
    if match[2] is None:
        raise ValueError("should end in its time zone: Z, or an offset such as +01:00")
    try:
        return datetime.fromisoformat(given.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a time that exists") from None
