"""The progress reporter: periodically reports how far each phase in progress is.

The first worker to claim a phase reports it, so any number of workers report it once. It writes
events and never a state, and nothing for a phase that is no longer in progress.
"""

from datetime import timedelta

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import RunId
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import progress
from outrider.kernel.transactions.progress import ProgressDue

log = structlog.get_logger()


class ProgressReporter:
    def __init__(self, foundation: Foundation, hub: EventHub) -> None:
        self._store = foundation.store
        self._hub = hub
        self._clock = foundation.clock
        self._limits = foundation.limits

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.progress_seconds)
            try:
                await self.report_once()
            except StoreUnavailable as error:
                log.warning("progress_not_told", error=error.message)

    async def report_once(self) -> int:
        """Returns how many phases had new progress."""
        now = self._clock.now()
        # Half an interval of tolerance, because two workers' intervals never quite coincide.
        reported_before = now - timedelta(seconds=self._limits.progress_seconds / 2)
        claim = progress.claim(reported_before, self._limits.progress_phases, now)
        reported = 0
        for due in await self._store.write(claim):
            if due.run_id is not None:
                reported += await self._report(due, due.run_id)
        if reported:
            self._hub.wake()
        return reported

    async def _report(self, due: ProgressDue, run_id: RunId) -> int:
        # Read on one snapshot: counted in the writing transaction, the numbers might not add up.
        accounting = await self._store.read(progress.accounting(run_id))
        kept = self._limits.progress_events_kept
        script = progress.report(due, run_id, accounting, kept, self._clock.now())
        return await self._store.write(script)
