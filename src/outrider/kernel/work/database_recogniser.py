"""The database recogniser: no work begins in a database that was restored or promoted.

It compares where the database is with where it was, and what it knows with what this machine
remembers of it. One that is not the same knows less than was done: nothing is sent from it until
somebody releases it.
"""

import asyncio

import structlog

from outrider.domain.errors import StoreError
from outrider.domain.ids import WorkerId
from outrider.domain.restored_database import DatabasePlace, RememberedDatabase
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import recovery
from outrider.kernel.transactions.recovery import Quarantine
from outrider.ports.database_memory import DatabaseMemory
from outrider.ports.store import Transaction

log = structlog.get_logger()


class DatabaseRecogniser:
    def __init__(self, foundation: Foundation, memory: DatabaseMemory, worker_id: WorkerId) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._memory = memory
        self._worker_id = worker_id

    async def recognise(self) -> Quarantine | None:
        """Before any work, and then periodically; what it returns is why there is none."""
        # Remembered first: another process may remember more a moment later.
        remembered = await asyncio.to_thread(self._memory.read)
        place = await self._store.place()
        found = await self._store.write(self._script(place, remembered))
        if isinstance(found, Quarantine):
            self._store.stay_at(place, lambda other: self._script(other, remembered))
            log.error("database_quarantined", why=found.reason, hint="outrider recovery status")
            return found
        self._store.stay_at(place, lambda other: self._script(other, found))
        await self._remember(found)
        return None

    def _script(
        self, place: DatabasePlace, remembered: RememberedDatabase | None
    ) -> Transaction[Quarantine | RememberedDatabase]:
        now = self._clock.now()
        return recovery.recognise(place, remembered, self._worker_id, self._ids, now)

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.clock_keep_seconds)
            try:
                await self.recognise()
            except StoreError as error:
                log.warning("database_not_recognised", error=error.message)

    async def _remember(self, remembered: RememberedDatabase) -> None:
        try:
            await asyncio.to_thread(self._memory.write, remembered)
        except OSError as error:
            log.warning("database_not_remembered", error=error.strerror)
