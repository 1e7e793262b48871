"""The deadline expirer: ends waiting items that could only be accepted too late, by the clock
alone.

It asks no gate and makes no calls, so a closed target keeps nothing alive past its deadline.
"""

from collections.abc import Sequence

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.submission import WORKFLOW_ORIGIN, ExhaustedReason
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import expiry
from outrider.kernel.transactions.expiry import Expired
from outrider.limits.work import EXPIRED_LOGGED_ITEMS_MAX

log = structlog.get_logger()


def _log_exhausted(ended: Sequence[Expired]) -> None:
    """Log how the retries of a workflow's message ended, as calls do."""
    of_workflows = [each for each in ended if each.origin == WORKFLOW_ORIGIN]
    for each in of_workflows[:EXPIRED_LOGGED_ITEMS_MAX]:
        log.warning(
            "retries_exhausted", outbox_id=each.id, attempt=each.attempts, reason=each.reason,
            ended_by=ExhaustedReason.DEADLINE_EXCEEDED.value,
        )  # fmt: skip
    if len(of_workflows) > EXPIRED_LOGGED_ITEMS_MAX:
        log.warning("more_retries_exhausted", items=len(of_workflows) - EXPIRED_LOGGED_ITEMS_MAX)


class DeadlineExpirer:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits

    async def expire(self) -> int:
        """Expire everything that is too late now, window by window; returns how many items."""
        expired = 0
        while True:
            ended = await self._store.write(
                expiry.expire(self._limits.expire_items, self._clock.now())
            )
            expired += len(ended)
            _log_exhausted(ended)
            if len(ended) < self._limits.expire_items:
                break
        if expired:
            log.info("deadlines_passed", items=expired)
        return expired

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            try:
                if await self._store.read(expiry.is_any_expired(self._clock.now())):
                    await self.expire()
            except StoreUnavailable as error:
                log.warning("deadlines_not_read", error=error.message)
            await self._clock.sleep(self._limits.expire_seconds)
