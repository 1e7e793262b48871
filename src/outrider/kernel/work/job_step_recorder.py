"""The step recorder: logs that steps have started, without ever delaying them.

Events that the store does not accept in time go to a spool on this machine, and to the log once the
store answers again. Their keys make repeated appends harmless.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
import structlog

from outrider.domain.contract_versions import CONTRACT_VERSION, UNVERSIONED, is_readable
from outrider.domain.errors import (
    InvalidInput,
    NotFound,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from outrider.domain.ids import RunId, WorkerId
from outrider.domain.run_events import RunEventType
from outrider.domain.write_budget import WriteBudget
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.budgeted_store import BudgetedStore
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.claims import Claim, ClaimedLane
from outrider.kernel.transactions.run_log import Appended, EventDraft
from outrider.ports.spool import Spool
from outrider.ports.store import Transaction

log = structlog.get_logger()


class SpooledEvent(msgspec.Struct, frozen=True):
    """An event draft as stored in the spool."""

    type: RunEventType
    step_id: str
    logical_attempt: int
    engine_attempt: int
    payload: dict[str, Any]
    occurred_at: datetime

    def draft(self) -> EventDraft:
        return EventDraft(
            self.type,
            self.step_id,
            self.logical_attempt,
            self.engine_attempt,
            self.payload,
            occurred_at=self.occurred_at,
        )


class SpooledEvents(msgspec.Struct, frozen=True):
    """Events of one run."""

    run_id: str
    plan_version: str
    events: list[SpooledEvent]
    contract_version: str = msgspec.field(default=UNVERSIONED, name="contractVersion")


ByRun = dict[tuple[RunId, str], list[SpooledEvent]]


class StepRecorder:
    def __init__(
        self, foundation: Foundation, spool: Spool, budget: WriteBudget, worker_id: WorkerId
    ) -> None:
        self._store = foundation.store
        self._budgeted = BudgetedStore(foundation.store, budget)
        self._spool = spool
        self._budget = budget
        self._clock = foundation.clock
        self._worker_id = worker_id
        self._limits = foundation.limits

    async def started(self, claims: Sequence[Claim]) -> None:
        """Log the start of all of these, or spool it for later. May raise StoreError where
        StepStarted is not allowed to fail open."""
        now = self._clock.now()
        by_run: ByRun = {}
        for job in claims:
            if not isinstance(job, ClaimedLane) and not job.cancelled:
                by_run.setdefault((job.run_id, job.plan_version), []).append(
                    SpooledEvent(
                        RunEventType.STEP_STARTED,
                        job.id,
                        job.logical_attempt,
                        job.attempts + 1,
                        {"worker": self._worker_id, "items": job.item_count},
                        now,
                    )
                )
        if not by_run:
            return
        try:
            await self._budgeted.write(
                run_log.append_of_runs(
                    {run: [each.draft() for each in events] for run, events in by_run.items()}, now
                )
            )
        except StoreUnavailable as error:
            if not self._budget.fails_open(RunEventType.STEP_STARTED):
                raise
            log.warning("events_spooled", events=len(claims), error=error.message)
            await self._keep(by_run)

    async def _keep(self, by_run: ByRun) -> None:
        try:
            for (run_id, version), events in by_run.items():
                entry = SpooledEvents(run_id, version, events, CONTRACT_VERSION)
                await self._spool.put(msgspec.json.encode(entry))
        except OSError as error:
            # Neither the store nor the spool accepted it. The step's end will still be logged.
            log.error("step_started_not_recorded", error=str(error))

    async def reconcile(self) -> None:
        """The loop that empties the spool; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.spool_seconds)
            try:
                await self.reconcile_once()
            except StoreError as error:
                log.warning("spool_not_emptied", error=error.message)
            except OSError as error:
                log.warning("spool_not_read", error=str(error))

    async def reconcile_once(self) -> int:
        """Returns how many events went from the spool to the log."""
        appended = 0
        for name in await self._spool.names(self._limits.spool_entries):
            content = await self._spool.read(name)
            if content is None:
                continue
            try:
                entry = msgspec.json.decode(content, type=SpooledEvents)
                await self._store.write(_append_spooled(entry, self._clock.now()))
            except (msgspec.MsgspecError, InvalidInput, NotFound, StoreRefused) as error:
                # Retrying would not help.
                log.error("spool_entry_set_aside", entry=name, error=str(error))
                await self._spool.set_aside(name)
                continue
            await self._spool.remove(name)
            appended += len(entry.events)
        if appended:
            log.info("spool_emptied", events=appended)
        return appended


def _append_spooled(entry: SpooledEvents, now: datetime) -> Transaction[list[Appended]]:
    if not is_readable(entry.contract_version):
        raise InvalidInput(f"the spooled events have contract version {entry.contract_version}")
    drafts = [event.draft() for event in entry.events]
    return run_log.append(
        RunId(entry.run_id), entry.plan_version, drafts, now, entry.contract_version
    )
