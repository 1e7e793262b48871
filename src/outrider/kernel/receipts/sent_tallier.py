"""The sent tallier: counts what this process sends through each target, to compute bounce rates.

A call costs one addition; the sums are written every few seconds. A killed process loses the last
of them, which no accounting depends on.
"""

from collections import Counter
from datetime import datetime, timedelta

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import WorkspaceId
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import deliveries
from outrider.kernel.transactions.deliveries import TargetTally
from outrider.kernel.transactions.targets import DoorKey
from outrider.limits.receipts import ReceiptLimits

log = structlog.get_logger()


class SentTallier:
    def __init__(self, foundation: Foundation, limits: ReceiptLimits) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = limits
        self._sent: dict[DoorKey, int] = {}
        self._forgotten_at: datetime | None = None

    def note(self, key: DoorKey) -> None:
        """A message was accepted there."""
        self._sent[key] = self._sent.get(key, 0) + 1

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.sent_flush_seconds)
            try:
                await self.flush()
            except StoreUnavailable as error:
                log.warning("sent_not_tallied", error=error.message)

    async def flush(self) -> None:
        if not self._sent:
            return
        noted = dict(self._sent)
        sent: Counter[tuple[str, str]] = Counter()
        for key, count in noted.items():
            sent[key.workspace_id, key.submission_target] += count
        hour_at = self._clock.now().replace(minute=0, second=0, microsecond=0)
        tallies = [
            TargetTally(WorkspaceId(workspace_id), submission_target, hour_at, sent=count)
            for (workspace_id, submission_target), count in sent.items()
        ]
        # Counts too old for any rate are deleted once an hour.
        oldest_at = hour_at - timedelta(hours=self._limits.tallies_kept_hours)
        forget_before = oldest_at if hour_at != self._forgotten_at else None
        await self._store.write(deliveries.tally_sent(tallies, forget_before))
        self._forgotten_at = hour_at
        for key, count in noted.items():
            self._sent[key] -= count
            if not self._sent[key]:
                del self._sent[key]
