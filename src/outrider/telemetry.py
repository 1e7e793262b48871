"""Logs, on standard error: readable lines for people, or one JSON object a line for machines.

Ids may be logged; recipients, addresses and bodies may not.
"""

import logging
import sys
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
            # What a request is bound to, its id above all, stands on every line it causes.
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Made for each use: whoever replaces standard error later gets the lines there.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
