"""The error log: the first provider error of each kind per minute, never one line per message."""

import structlog
from cachetools import LRUCache

from outrider.domain.call_results import AttemptError, CallResult, Held, Throttled
from outrider.limits.delivery import ERROR_LOGGED_AGAIN_SECONDS
from outrider.ports.clock import Clock

log = structlog.get_logger()

KINDS_REMEMBERED = 1_000


class ErrorLog:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._said: LRUCache[tuple[str, str], tuple[float, int]] = LRUCache(KINDS_REMEMBERED)
        """When a kind was logged last, and how many came since."""

    def note(self, submission_target: str, gateway_url: str, result: CallResult) -> None:
        kind = kind_of(result)
        if kind is None:
            return
        now = self._clock.monotonic()
        said_at, since = self._said.get((submission_target, kind), (float("-inf"), 0))
        if now - said_at < ERROR_LOGGED_AGAIN_SECONDS:
            self._said[submission_target, kind] = said_at, since + 1
            return
        self._said[submission_target, kind] = now, 0
        log.warning(
            "provider_error", submission_target=submission_target, gateway_url=gateway_url,
            kind=kind, unlogged_before=since,
        )  # fmt: skip


def kind_of(result: CallResult) -> str | None:
    """A provider's words may name a recipient, so that only codes are logged."""
    match result:
        case AttemptError():
            return result.code
        case Throttled():
            return "throttled"
        case Held():
            return result.reason
        case _:
            return None
