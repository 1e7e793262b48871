"""Logs, on standard error: readable lines for people, or one JSON object per line for machines.

Ids may be logged; recipients, addresses and bodies may not.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import structlog
from cachetools import LRUCache

TRANSITIONS = frozenset(
    {
        "alert_raised", "database_down", "database_still_down", "provider_error",
        "target_door_down", "P3.4: Transition bypass detected",
    }
)  # fmt: skip
"""Warnings that are logged once per change, or are counted already by the role that logs them."""
WARNINGS = frozenset({"warning", "error"})
TEXTS = frozenset({"event", "error", "detail", "reason", "why", "effect"})
"""Fields that say how it went this time. The other strings say what it is about."""
REPEAT_SECONDS = 60.0
SUBJECTS_A_MINUTE = 10
REPEATS_REMEMBERED = 1_000


@dataclass(slots=True)
class _Repeated:
    """When it began, when it was last logged, and how often it came since."""

    began: float
    logged: float
    dropped: int = 0


@dataclass(slots=True)
class _Minute:
    """How many lines of one event were logged since then, and how many were not."""

    began: float
    lines: int = 0
    dropped: int = 0


class StillSo:
    """Drops a warning that repeats one from the last minute: one line when something begins, then
    one a minute, which says since when. A warning that comes for one job, item or client after the
    other is logged for the first ten of a minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._repeated: LRUCache[tuple[str, ...], _Repeated] = LRUCache(REPEATS_REMEMBERED)
        self._minutes: LRUCache[str, _Minute] = LRUCache(REPEATS_REMEMBERED)

    def __call__(
        self, _logger: object, method: str, fields: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        event = fields["event"]
        if method not in WARNINGS or event in TRANSITIONS:
            return fields
        now = self._monotonic()
        subject = subject_of(fields)
        known = self._repeated.get(subject)
        if known is not None and now - known.logged < REPEAT_SECONDS:
            known.dropped += 1
            raise structlog.DropEvent
        self._take_turn(event, now, fields)
        if known is not None and known.dropped:
            fields.update(repeated=known.dropped, for_seconds=round(now - known.began))
            known.logged, known.dropped = now, 0
        else:
            self._repeated[subject] = _Repeated(now, now)
        return fields

    def _take_turn(self, event: str, now: float, fields: structlog.typing.EventDict) -> None:
        """Of the lines that one event may have in a minute, about whatever subjects."""
        minute = self._minutes.get(event)
        if minute is None or now - minute.began >= REPEAT_SECONDS:
            if minute is not None and minute.dropped:
                fields["unlogged_of_others"] = minute.dropped
            minute = self._minutes[event] = _Minute(now)
        if minute.lines >= SUBJECTS_A_MINUTE:
            minute.dropped += 1
            raise structlog.DropEvent
        minute.lines += 1


def subject_of(fields: Mapping[str, object]) -> tuple[str, ...]:
    """What a line is about: its event, and the names and ids in it. Of exceptions, the types."""
    named = [
        f"{name}={value}"
        for name, value in sorted(fields.items())
        if isinstance(value, str) and name not in TEXTS
    ]
    named += [str(value) for name, value in fields.items() if name == "errors"]
    if fields.get("exc_info"):
        given = fields["exc_info"]
        raised = given if isinstance(given, BaseException) else sys.exc_info()[1]
        named.append(type(raised).__qualname__)
    return (str(fields["event"]), *named)


def configure_logging(form: Literal["console", "json"], level: int = logging.INFO) -> None:
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            # Before the ids of requests are added: what two requests meet is one condition.
            StillSo(),
            # A request's bound values, its id above all, are on every line it causes.
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Created on each use, so that a later replacement of standard error is respected.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )


SERVER_LIBRARIES = ("uvicorn", "asyncio", "sse_starlette")


class _Bridge(logging.Handler):
    """A library's warning as one of our log lines: its name and text, and the type of its error."""

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        structlog.get_logger().log(
            record.levelno,
            "library",
            library=record.name,
            says=record.getMessage().partition("\n")[0],
            **({"error": kind.__qualname__} if kind else {}),
        )


def bridge_library_logs(names: Iterable[str] = SERVER_LIBRARIES) -> None:
    """Format the warnings of these libraries as our own log lines."""
    for name in names:
        library = logging.getLogger(name)
        library.handlers, library.propagate = [_Bridge(logging.WARNING)], False
