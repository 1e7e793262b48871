"""The database releaser: a database that was restored or promoted is the one to work with again.

Everything in it that was due may have been sent by the database it is a copy of. So it is marked as
such, in windows, before the first worker may begin; then each message is settled by evidence, or by
a person.
"""

from datetime import datetime

from outrider.domain.errors import Conflict
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import recovery
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.recovery import Quarantine


class DatabaseReleaser:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits

    async def quarantine(self) -> Quarantine | None:
        return await self._store.read(recovery.quarantine())

    async def release(self, actor: str, *, nothing_lost: bool = False) -> None:
        """`nothing_lost`: it has everything that was done, so nothing is put in doubt."""
        found = await self.quarantine()
        if found is None:
            raise Conflict("the database is not in quarantine")
        if not nothing_lost:
            await self._distrust(self._clock.now())
        now = self._clock.now()
        await self._store.write(
            recovery.release(actor, self._ids, now, distrusted=not nothing_lost)
        )

    async def _distrust(self, until: datetime) -> None:
        after, most = FIRST, self._limits.recovery_messages
        while jobs := await self._store.write(
            recovery.distrust_jobs(after, until, self._limits.recovery_jobs, self._clock.now())
        ):
            after = jobs[-1].id
        after = FIRST
        while lanes := await self._store.read(recovery.lanes(after, self._limits.recovery_jobs)):
            for lane in lanes:
                while await self._store.write(
                    recovery.distrust_messages(lane, until, most, self._clock.now())
                ):
                    pass
            after = lanes[-1]
