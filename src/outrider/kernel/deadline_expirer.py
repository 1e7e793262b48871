"""The deadline expirer: ends what waits and could only be accepted too late, by the clock alone.

It asks no gate and calls nobody, so a target that is closed keeps nothing alive past its deadline.
"""

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.transactions import ledger
from outrider.ports.clock import Clock
from outrider.ports.store import Store
from outrider.settings import Limits

log = structlog.get_logger()


class DeadlineExpirer:
    def __init__(self, store: Store, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits

    async def expire(self) -> int:
        """Everything that is too late now, a window at a time; how many items that were."""
        expired = 0
        while True:
            ended = await self._store.write(
                ledger.expire(self._limits.expire_items, self._clock.now())
            )
            expired += ended
            if ended < self._limits.expire_items:
                break
        if expired:
            log.info("deadlines_passed", items=expired)
        return expired

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            try:
                if await self._store.read(ledger.is_any_expired(self._clock.now())):
                    await self.expire()
            except StoreUnavailable as error:
                log.warning("deadlines_not_read", error=error.message)
            await self._clock.sleep(self._limits.expire_seconds)
