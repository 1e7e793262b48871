"""Logs, on standard error: readable lines for people, or one JSON object per line for machines.

Ids may be logged; recipients, addresses and bodies may not.
"""

import logging
import sys
import time
from collections.abc import Callable, Iterable
from typing import Literal

import structlog

REPEATING = frozenset(
    {
        "store_unavailable", "heartbeat_failed", "rescue_failed", "progress_not_told", "not_ready",
        "presence_not_written", "job_waits_for_store", "job_left_to_its_lease", "bus_relay_failed",
        "bus_events_delayed", "bus_sink_failed", "sent_not_tallied", "look_failed",
        "figures_not_read", "stalled_work_not_read", "engine_not_told", "door_not_told",
        "target_door_throttled", "target_door_open",
    }
)  # fmt: skip
"""Conditions that last: one line when they begin, then one a minute, which says since when."""
REPEAT_SECONDS = 60.0
REPEATS_REMEMBERED = 1_000


class StillSo:
    """Drops a line that repeats one from the last minute."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said: dict[tuple[str, object], tuple[float, float, int]] = {}
        """By event and subject: when it started, when it was last logged, and how often it occurred
        since."""

    def __call__(
        self, _logger: object, _method: str, fields: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        event = fields["event"]
        if event not in REPEATING:
            return fields
        key = event, fields.get("sink") or fields.get("submission_target") or fields.get("code")
        now = self._monotonic()
        began, said, dropped = self._said.get(key, (now, float("-inf"), 0))
        if now - said < REPEAT_SECONDS:
            self._said[key] = began, said, dropped + 1
            raise structlog.DropEvent
        if not dropped:
            began = now
        if len(self._said) >= REPEATS_REMEMBERED:
            self._said.clear()
        self._said[key] = began, now, 0
        if dropped:
            fields.update(repeated=dropped, for_seconds=round(now - began))
        return fields


def configure_logging(form: Literal["console", "json"], level: int = logging.INFO) -> None:
    last: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if form == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            # A request's bound values, its id above all, are on every line it causes.
            structlog.contextvars.merge_contextvars,
            StillSo(),
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
