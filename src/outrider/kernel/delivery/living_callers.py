"""Who called an item in doubt and may be alive: such a worker can still complete its call."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import assert_never

from outrider.domain.ids import OutboxId, Scope
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import doubts
from outrider.ports.presence import Presence, PresenceOf


class LivingCallers:
    def __init__(self, foundation: Foundation, presence_of: PresenceOf) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._presence_of = presence_of

    async def of(
        self, scope: Scope, outbox_ids: Sequence[OutboxId]
    ) -> dict[OutboxId, datetime | None]:
        """Items whose worker lost its lease and may still complete a call that it had begun, with
        the time until which that is possible; None: for as long as its process is seen here."""
        now, quiet_at = self._clock.now(), await self.quiet_at(scope, outbox_ids)
        return {each: until for each, until in quiet_at.items() if until is None or until > now}

    async def quiet_at(
        self, scope: Scope, outbox_ids: Sequence[OutboxId]
    ) -> dict[OutboxId, datetime | None]:
        """The time from which no worker can still be calling them, if that is later than the doubt;
        None: their process is still seen here."""
        found: dict[OutboxId, datetime | None] = {}
        patience = timedelta(seconds=self._limits.stale_lock_seconds)
        for start in range(0, len(outbox_ids), self._limits.reconcile_items):
            window = outbox_ids[start : start + self._limits.reconcile_items]
            for lost in await self._store.read(doubts.lost_holders(scope, window)):
                match self._presence_of(lost.worker_id):
                    case Presence.GONE:
                        continue
                    case Presence.RUNS:
                        found[lost.outbox_id] = None
                    case Presence.UNKNOWN:
                        until = lost.lost_at + patience
                        known = found.get(lost.outbox_id, until)
                        if known is not None:
                            # Several workers may have called it: the longest of these waits counts.
                            found[lost.outbox_id] = max(until, known)
                    case other:
                        assert_never(other)
        return found
