"""The shortage teller: an alert while this machine is out of file handles, memory or room.

What could not be called for that waits and has lost no attempt; somebody should hear of it.
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
        self._told_at = float("-inf")
        self._seen_at = float("-inf")
        self.stands = False
        """Whether an alert of this process stands; asked at the end of every call."""

    async def tell(self, detail: str) -> None:
        """A call could not begin because of it."""
        now = self._seen_at = self._clock.monotonic()
        if now - self._told_at < self._limits.shortage_tell_seconds:
            return
        self._told_at, self.stands = now, True
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
        """A call went through; after a while without another shortage it is taken for over."""
        if self._clock.monotonic() - self._seen_at < self._limits.shortage_tell_seconds:
            return
        self.stands = False
        try:
            now = self._clock.now()
            await self._store.write(resolve_alert(AlertCode.OUT_OF_HANDLES, self._host, now))
        except StoreError as error:
            self.stands = True
            log.warning("shortage_not_told", error=error.message)
