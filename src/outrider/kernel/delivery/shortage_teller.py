"""The shortage teller: an open alert while this machine is out of file handles, memory or disk
space.

Calls that could not be made for that reason wait without losing an attempt.
"""

import structlog

from outrider.domain.errors import StoreError
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert

log = structlog.get_logger()


class ShortageTeller:
    def __init__(self, foundation: Foundation, host: str) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._host = host
        self._alerted_at = float("-inf")
        self._seen_at = float("-inf")
        self.is_alerting = False
        """Whether this process has an open alert; checked at the end of every call."""

    async def report(self, detail: str) -> None:
        """A call could not begin because of the shortage."""
        now = self._seen_at = self._clock.monotonic()
        if now - self._alerted_at < self._limits.shortage_tell_seconds:
            return
        self._alerted_at, self.is_alerting = now, True
        log.error("out_of_handles", error=detail)
        message = (
            f"{self._host} has run out of a local resource, and calls are waiting for it: {detail}"
        )
        alert = Alert(DEFAULT_SCOPE, AlertCode.OUT_OF_HANDLES, self._host, message)
        try:
            await self._store.write(raise_alert(alert, self._ids, self._clock.now()))
        except StoreError as error:
            log.warning("shortage_not_told", error=error.message)

    async def over(self) -> None:
        """A call went through; after a while without another shortage the alert is resolved."""
        if self._clock.monotonic() - self._seen_at < self._limits.shortage_tell_seconds:
            return
        self.is_alerting = False
        try:
            now = self._clock.now()
            await self._store.write(resolve_alert(AlertCode.OUT_OF_HANDLES, self._host, now))
        except StoreError as error:
            self.is_alerting = True
            log.warning("shortage_not_told", error=error.message)
