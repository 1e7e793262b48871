"""The current request's id: the client's own if it is valid, else a new one."""

import re
from contextvars import ContextVar

HEADER = "X-Request-ID"

_FIT = re.compile(r"[A-Za-z0-9._-]{1,100}\Z")
_current: ContextVar[str] = ContextVar("outrider_request_id", default="")


def is_fit(given: str) -> bool:
    return _FIT.match(given) is not None


def use(found: str) -> None:
    """For the rest of this request's task, and the tasks it starts."""
    _current.set(found)


def request_id() -> str:
    return _current.get()
