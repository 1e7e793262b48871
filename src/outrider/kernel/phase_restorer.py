"""The phase restorer: on start, repairs phases in flight whose run has ended or never was.

A phase and its run are written together, so only a hand in the database makes them disagree. The
repair goes past the state machine, and is recorded as the bypass it is, like every other.
"""

import msgspec
import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import CampaignId
from outrider.domain.states import PhaseState, RunStatus
from outrider.kernel.event_hub import EventHub
from outrider.kernel.transactions.inspection import FIRST
from outrider.kernel.transactions.phases import transition_phase_direct
from outrider.ports.clock import Clock
from outrider.ports.store import Rows, Store, Transaction, ask
from outrider.settings import Limits

log = structlog.get_logger()

CALLER = "phase_restorer"
_ENDED = {
    RunStatus.COMPLETED: PhaseState.COMPLETED,
    RunStatus.PARTIAL: PhaseState.COMPLETED,
    RunStatus.FAILED: PhaseState.FAILED,
}


class PhaseRestorer:
    def __init__(self, store: Store, hub: EventHub, clock: Clock, limits: Limits) -> None:
        self._store = store
        self._hub = hub
        self._clock = clock
        self._limits = limits
        self._logged = FIRST

    async def start(self) -> int:
        """Repair what disagrees, and log it; returns how many phases that were."""
        latest = await self._store.read(self._latest())
        self._logged = latest[0][0] if latest else FIRST
        restored = await self._store.write(self._restore())
        await self.log_bypasses()
        if restored:
            self._hub.wake()
        return restored

    async def run(self) -> None:
        """Log every bypass that the database records from now on; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.bypass_poll_seconds)
            try:
                await self.log_bypasses()
            except StoreUnavailable as error:
                log.warning("bypasses_not_read", error=error.message)

    def _restore(self) -> Transaction[int]:
        found = yield from ask("disagreeing_phases", most=self._limits.progress_phases)
        now = self._clock.now()
        for campaign_id, phase, _, run_status in found:
            ended = _ENDED[RunStatus(run_status)] if run_status else PhaseState.FAILED
            reason = f"run_{run_status}" if run_status else "run_missing"
            yield from transition_phase_direct(
                CampaignId(campaign_id), phase, ended, CALLER, reason, now
            )
        return len(found)

    async def log_bypasses(self) -> None:
        rows = await self._store.read(self._bypasses())
        for bypass_id, campaign_id, detail in rows:
            fields = msgspec.json.decode(detail)
            log.warning("P3.4: Transition bypass detected", campaign_id=campaign_id, **fields)
            self._logged = bypass_id

    def _latest(self) -> Transaction[Rows]:
        return (yield from ask("latest_bypass"))

    def _bypasses(self) -> Transaction[Rows]:
        return (yield from ask("bypasses_after", after=self._logged, most=self._limits.bypass_page))


def count_bypasses() -> Transaction[int]:
    rows = yield from ask("count_bypasses")
    count: int = rows[0][0]
    return count
