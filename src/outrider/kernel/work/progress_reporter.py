"""The progress reporter: tells, every so often, how far each phase in progress is.

Whoever asks first tells it, so any number of workers tell it once. It writes an event and never a
state, and writes nothing for a phase that is no longer in progress.
"""

from datetime import timedelta

import msgspec
import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import PROGRESS_EVENT
from outrider.domain.states import PhaseState
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import inspection
from outrider.kernel.transactions.phases import append_event
from outrider.kernel.transactions.snapshots import progress_percentage
from outrider.ports.store import Transaction, ask, ask_alone

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
        """Returns how many phases there was something new to tell of."""
        due = await self._store.write(self._claim())
        told = 0
        for campaign_id, phase, run_id, last in due:
            if run_id is not None:
                # Read on one snapshot: counted in the writing transaction, it might not add up.
                accounting = await self._store.read(_accounting(RunId(run_id)))
                told += await self._store.write(
                    self._tell(CampaignId(campaign_id), phase, RunId(run_id), accounting, last)
                )
        if told:
            self._hub.wake()
        return told

    def _claim(self) -> Transaction[list[tuple[str, str, str | None, str | None]]]:
        now = self._clock.now()
        # Half a beat of grace, because two workers' beats never quite fall together.
        told_before = now - timedelta(seconds=self._limits.progress_seconds / 2)
        rows = yield from ask_alone(
            "claim_progress", told_before=told_before, most=self._limits.progress_phases, now=now
        )
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def _tell(
        self,
        campaign_id: CampaignId,
        phase: str,
        run_id: RunId,
        accounting: Accounting,
        last: str | None,
    ) -> Transaction[int]:
        payload: dict[str, object] = {
            "progressPercentage": progress_percentage(accounting),
            "accounting": accounting.as_document(),
            "runId": run_id,
        }
        document = msgspec.json.encode(payload).decode()
        if document == last:
            return 0
        state, current_run = (yield from ask("lock_phase", campaign_id=campaign_id, phase=phase))[0]
        if state != PhaseState.IN_PROGRESS or current_run != run_id:
            log.warning("progress_ignored", campaign_id=campaign_id, phase=phase, state=state)
            return 0
        now = self._clock.now()
        sequence = yield from append_event(campaign_id, PROGRESS_EVENT, phase, payload, now)
        yield from ask("save_progress", campaign_id=campaign_id, phase=phase, progress=document)
        yield from ask(
            "prune_progress",
            campaign_id=campaign_id,
            phase=phase,
            before=sequence - self._limits.progress_events_kept,
        )
        return 1


def _accounting(run_id: RunId) -> Transaction[Accounting]:
    return (yield from inspection.accounting((yield from inspection.run_anywhere(run_id))))
