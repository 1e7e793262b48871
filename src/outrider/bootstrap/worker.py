"""A worker of this process: from the jobs its engine assigns to a provider's answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cached_property

from outrider.bootstrap.work import WorkRoles
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import WorkerId
from outrider.domain.retry import RetrySchedule
from outrider.domain.targets import TargetPolicy
from outrider.engines.process_identity import is_dead, this_host, this_worker
from outrider.engines.worker import EngineWorker
from outrider.files.call_journal import CallJournalFolder, open_journal
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.attachment_reader import EnclosureReader
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.campaign_delivery import Delivery
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import GatewayRoutes
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.delivery.lane_delivery import LaneDelivery
from outrider.kernel.delivery.reservations import Reserver
from outrider.kernel.delivery.result_closer import ResultCloser
from outrider.kernel.delivery.shortage_teller import ShortageTeller
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.runs.budgeted_store import BudgetedStore
from outrider.kernel.work.job_processor import JobProcessor
from outrider.kernel.work.lease_rescuer import LeaseRescuer
from outrider.kernel.work.phase_work import PhaseWork
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.kernel.work.queue_turns import QueueTurns, WorkFilter
from outrider.kernel.work.setup_inspector import SetupInspector
from outrider.ports.engine import Worker
from outrider.ports.stages import StageObserver, Unobserved
from outrider.rendering.pool import RenderPool


class WorkerParts:
    """The roles of one worker; what it shares with others of its process is `shared`."""

    def __init__(
        self,
        shared: WorkRoles,
        worker_id: WorkerId,
        retry: RetrySchedule | None,
        observer: StageObserver,
        work_filter: WorkFilter,
    ) -> None:
        self._shared = shared
        self._foundation = foundation = shared.foundation
        self._worker_id = worker_id
        self._observer = observer
        self._filter = work_filter
        self.renderer = RenderPool()
        self.journal = open_journal(shared.settings.spool, worker_id)
        self.permits = CallPermits(foundation)
        self.closer = ResultCloser(foundation, observer, self.journal)
        self.gate = TargetGate(foundation, shared.policies, TargetPolicy(retry=retry), worker_id)
        self._reserver = Reserver(foundation, self.permits)
        self._budgeted = BudgetedStore(foundation.store, shared.settings.state_store.budget())
        self._contract_cache = ContractCache(foundation.store)

    @cached_property
    def routes(self) -> GatewayRoutes:
        names = WorkspaceNames(self._foundation.store, self._foundation.limits)
        return GatewayRoutes(self._shared.gateways, self._contract_cache, names)

    @cached_property
    def caller(self) -> GatewayCaller:
        shortages = ShortageTeller(self._foundation, this_host())
        return GatewayCaller(
            self._foundation, self.closer, self.gate, self.permits, self.journal, self._observer,
            shortages,
        )  # fmt: skip

    @cached_property
    def processor(self) -> JobProcessor:
        shared = self._shared
        phase_work = PhaseWork(
            self._foundation, self._budgeted, shared.handlers, shared.phase_contexts,
            self._worker_id,
        )  # fmt: skip
        processor = JobProcessor(
            self._foundation, shared.engine, self._campaign_delivery(), self._lane_delivery(),
            phase_work, shared.step_recorder(self._worker_id), self.permits, self.journal,
            QueueTurns(self._filter, self.gate.closed_until), self._filter, self.gate.closed,
            self._worker_id, self._observer,
        )  # fmt: skip
        self.caller.yields = processor.yields
        self.caller.note_sent = shared.sent_tallier.note
        shared.receipt_matcher.is_sending = lambda: bool(processor.held)
        return processor

    def _campaign_delivery(self) -> Delivery:
        shared = self._shared
        drafter = ItemDrafter(self.renderer, shared.ids, self._observer, shared.unsubscriber)
        return Delivery(
            self._foundation, self._budgeted, self.routes, self._contract_cache, drafter,
            self._reserver, self.caller, self._worker_id, self._observer,
        )  # fmt: skip

    def _lane_delivery(self) -> LaneDelivery:
        shared = self._shared
        return LaneDelivery(
            self._foundation, self.routes, self._contract_cache, shared.screener,
            EnclosureReader(shared.artifacts), shared.unsubscriber, self._reserver, self.caller,
            self._observer,
        )  # fmt: skip

    @cached_property
    def rescuer(self) -> LeaseRescuer:
        shared = self._shared
        journals = CallJournalFolder(shared.settings.spool)
        return LeaseRescuer(
            self._foundation, journals, self._worker_id, is_dead, shared.clock_is_steady
        )

    async def get_ready(self) -> None:
        self._shared.gateways.get_ready()
        await self.processor.get_ready()
        await self._inspect_setup(SetupInspector(self.routes, self.gate, self._filter))
        await self.renderer.start()

    async def _inspect_setup(self, inspector: SetupInspector) -> None:
        """Without a registry there is nothing to check: workers continue with what is in the
        database."""
        try:
            contracts = self._shared.registry_keeper.contracts().values()
        except InvalidInput:
            return
        await inspector.inspect(contracts)

    async def close(self) -> None:
        self.journal.close()
        await self.renderer.close()


class WorkerRoles(WorkRoles):
    @asynccontextmanager
    async def worker(
        self,
        *,
        worker_id: WorkerId | None = None,
        retry: RetrySchedule | None = None,
        observer: StageObserver | None = None,
        work_filter: WorkFilter | None = None,
    ) -> AsyncIterator[Worker]:
        """A worker wired to this process's store; the caller runs it."""
        await self.set_clock()
        await self.bus_keeper.register()
        parts = WorkerParts(
            self, worker_id or this_worker(), retry, observer or Unobserved(),
            work_filter or WorkFilter(),
        )  # fmt: skip
        reporter = ProgressReporter(self.foundation, self.hub)
        try:
            await parts.get_ready()
            async with self.engine.worker(parts.processor) as mover:
                yield EngineWorker(
                    mover, parts.processor, parts.permits, parts.caller, parts.closer,
                    parts.rescuer, reporter, self.background_loops,
                )  # fmt: skip
        finally:
            await parts.close()
