"""Logs, on standard error: readable lines for people, or one JSON object per line for machines.

Ids may be logged; recipients, addresses and bodies may not.
"""

import logging
import sys
from collections.abc import Iterable
from typing import Literal

import structlog


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
