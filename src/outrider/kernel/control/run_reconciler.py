"""The run reconciler: starts waiting runs as soon as their workspace has capacity for them.

It keeps no state in memory, and any number may run at once: a run is started by the holder of its
request's lease, in the transaction that records the start.
"""

from dataclasses import dataclass
from datetime import timedelta

import structlog

from outrider.domain.admission import Admitted, Delayed
from outrider.domain.errors import StoreError
from outrider.domain.ids import RunId, Scope, WorkerId
from outrider.kernel.foundation import Foundation
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.transactions import admission, run_starts
from outrider.kernel.transactions.admission import LeasedRequest
from outrider.kernel.transactions.admission_gate import AdmissionGate
from outrider.kernel.transactions.run_starts import DequeueStatus
from outrider.kernel.work.engine_notifier import EngineNotifier

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Dequeued:
    run_id: RunId
    status: DequeueStatus


class RunReconciler:
    def __init__(
        self,
        foundation: Foundation,
        gate: AdmissionGate,
        hub: EventHub,
        engine_notifier: EngineNotifier,
        worker_id: WorkerId,
    ) -> None:
        self._store = foundation.store
        self._gate = gate
        self._hub = hub
        self._engine_notifier = engine_notifier
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._worker_id = worker_id
        self._limits = foundation.limits

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.reconcile_runs_seconds)
            try:
                await self.dequeue_and_start()
            except StoreError as error:
                log.warning("runs_not_dequeued", error=error.message)

    async def dequeue_and_start(self) -> list[Dequeued]:
        """Start waiting runs while there is capacity, oldest first in each workspace."""
        most = self._limits.reconcile_workspaces
        started: list[Dequeued] = []
        for scope in await self._store.read(admission.waiting_workspaces(most)):
            started += await self._in_workspace(scope)
        return started

    async def _in_workspace(self, scope: Scope) -> list[Dequeued]:
        """At most a page of them; the next round continues."""
        if not await self._has_room(scope):
            return []
        left = await self._lease(scope)
        started: list[Dequeued] = []
        try:
            while left and (status := await self._start(left[0])) is not None:
                started.append(Dequeued(left.pop(0).run_id, status))
        finally:
            if left:
                await self._store.write(admission.give_back(left, self._worker_id))
        return started

    async def _has_room(self, scope: Scope) -> bool:
        """Checked before anything is leased: a full workspace costs one read per round."""
        verdict = await self._store.read(self._gate.decide(scope))
        return isinstance(verdict, Admitted | Delayed)

    async def _lease(self, scope: Scope) -> list[LeasedRequest]:
        now = self._clock.now()
        until = now + timedelta(seconds=self._limits.run_lease_seconds)
        page = self._limits.reconcile_runs_page
        return await self._store.write(
            admission.lease_requests(scope, self._worker_id, until, page, now)
        )

    async def _start(self, request: LeasedRequest) -> DequeueStatus | None:
        """None if there is no capacity."""
        try:
            status = await self._store.write(
                run_starts.start(request, self._worker_id, self._gate, self._clock.now())
            )
        except StoreError:
            raise
        except Exception as error:
            # One run that cannot be started must not block the others. Its lease is kept, so that
            # it is not retried immediately.
            log.exception("run_not_started", run_id=request.run_id)
            await self._store.write(
                run_starts.failed(
                    request, f"{type(error).__name__}: {error}", self._ids, self._clock.now()
                )
            )
            return DequeueStatus.FAILED
        if status is DequeueStatus.STARTED:
            log.info("run_dequeued", run_id=request.run_id)
            self._hub.wake(request.campaign_id)
            await self._engine_notifier.released(request.scope.tenant_id, request.run_id)
        return status
