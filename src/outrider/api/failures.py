"""Logs an unexpected error of a request."""

import structlog

from outrider.domain.failures import described

log = structlog.get_logger()


def log_failure(error: BaseException) -> None:
    log.error("request_failed", errors=list(described(error)))
