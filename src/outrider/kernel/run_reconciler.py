"""The run reconciler: starts the runs that wait, as soon as their workspace has room for them.

It keeps nothing in memory and may run anywhere, any number of times at once: a run is started by
whoever holds its request's lease, in the one transaction that also says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

import structlog

from outrider.domain.admission import Admitted, Delayed, Queued, Rejected
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import RunId, Scope, WorkerId
from outrider.domain.states import TERMINAL_RUNS, RunStatus
from outrider.kernel.admission_gate import AdmissionGate, later
from outrider.kernel.event_hub import EventHub
from outrider.kernel.transactions import admission
from outrider.kernel.transactions.admission import LeasedRequest
from outrider.kernel.transactions.run_requests import RequestStatus
from outrider.ports.clock import Clock
from outrider.ports.store import Store, Transaction, ask
from outrider.settings import Limits

log = structlog.get_logger()


class DequeueStatus(StrEnum):
    STARTED = "STARTED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


@dataclass(frozen=True, slots=True)
class Dequeued:
    run_id: RunId
    status: DequeueStatus


class RunReconciler:
    def __init__(
        self,
        store: Store,
        gate: AdmissionGate,
        hub: EventHub,
        clock: Clock,
        worker_id: WorkerId,
        limits: Limits,
    ) -> None:
        self._store = store
        self._gate = gate
        self._hub = hub
        self._clock = clock
        self._worker_id = worker_id
        self._limits = limits

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.reconcile_runs_seconds)
            try:
                await self.dequeue_and_start()
            except StoreUnavailable as error:
                log.warning("runs_not_dequeued", error=error.message)

    async def dequeue_and_start(self) -> list[Dequeued]:
        """Start what there is room for, the oldest first. What has none is given back unsaid."""
        told: list[Dequeued] = []
        kept: list[LeasedRequest] = []
        full: set[Scope] = set()
        for _ in range(self._limits.reconcile_runs_pages):
            # What is leased is not found again, so each look finds the next oldest.
            leased = await self._lease()
            for request in leased:
                status = None
                if request.scope not in full:
                    status = await self._start(request)
                if status is None:
                    full.add(request.scope)
                    kept.append(request)
                else:
                    told.append(Dequeued(request.run_id, status))
            if len(leased) < self._limits.reconcile_runs_page:
                break
        if kept:
            await self._store.write(self._give_back(kept))
        return told

    async def _lease(self) -> list[LeasedRequest]:
        now = self._clock.now()
        until = now + timedelta(seconds=self._limits.run_lease_seconds)
        page = self._limits.reconcile_runs_page
        if not await self._store.read(_anything_waits()):
            return []
        return await self._store.write(admission.lease_requests(self._worker_id, until, page, now))

    async def _start(self, request: LeasedRequest) -> DequeueStatus | None:
        """None where there is no room."""
        try:
            status = await self._store.write(self._started(request))
        except StoreUnavailable:
            raise
        except Exception:
            # One run that cannot be started must not keep the others from it.
            log.exception("run_not_started", run_id=request.run_id)
            await self._store.write(self._failed(request))
            return DequeueStatus.FAILED
        if status is DequeueStatus.STARTED:
            log.info("run_dequeued", run_id=request.run_id)
            self._hub.wake(request.campaign_id)
        return status

    def _started(self, request: LeasedRequest) -> Transaction[DequeueStatus | None]:
        yield from ask("serialise_controls", campaign_id=request.campaign_id)
        rows = yield from ask("lock_run", run_id=request.run_id)
        status, _, _, stopped_at, plan_version, approved_at = rows[0]
        if not (yield from admission.hold_request(request, self._worker_id)):
            return DequeueStatus.SKIPPED
        now = self._clock.now()
        if stopped_at is not None or approved_at is not None or RunStatus(status) in TERMINAL_RUNS:
            skipped = RequestStatus.SKIPPED
            yield from admission.end_request(request.run_id, skipped, "not_waiting", now)
            return DequeueStatus.SKIPPED
        verdict = yield from self._gate.decide(request.scope)
        match verdict:
            case Admitted() | Delayed():
                not_before = later(verdict, now)
            case Queued() | Rejected():
                return None
            case other:
                assert_never(other)
        yield from admission.let_go(request.run_id, plan_version, "planner", not_before, [], now)
        return DequeueStatus.STARTED

    def _failed(self, request: LeasedRequest) -> Transaction[None]:
        now = self._clock.now()
        failed = RequestStatus.FAILED
        yield from admission.end_request(request.run_id, failed, "could_not_start", now)

    def _give_back(self, kept: Sequence[LeasedRequest]) -> Transaction[None]:
        for request in kept:
            yield from admission.give_back(request, self._worker_id)


def _anything_waits() -> Transaction[bool]:
    rows = yield from ask("any_run_waits")
    return bool(rows)
