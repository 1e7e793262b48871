"""A worker of this process: from the jobs its engine assigns to a provider's answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import cached_property

from outrider.bootstrap.work import WorkRoles
from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.domain.ids import WorkerId
from outrider.domain.retry import RetrySchedule
from outrider.domain.targets import TargetPolicy
from outrider.engines.process_identity import is_dead, presence, this_host, this_worker
from outrider.engines.worker import EngineWorker
from outrider.files.call_journal import CallJournalFolder, open_journal
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.delivery.attachment_reader import EnclosureReader
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.campaign_delivery import CampaignDelivery
from outrider.kernel.delivery.domain_shaper import DomainShaper
from outrider.kernel.delivery.fallback_chooser import FallbackChooser
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import GatewayRoutes
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.delivery.lane_delivery import LaneDelivery
from outrider.kernel.delivery.lane_loader import LaneLoader
from outrider.kernel.delivery.lane_opener import LaneOpener
from outrider.kernel.delivery.living_callers import LivingCallers
from outrider.kernel.delivery.member_calls import MemberCalls
from outrider.kernel.delivery.member_opener import MemberOpener
from outrider.kernel.delivery.reservations import Reserver
from outrider.kernel.delivery.result_closer import ResultCloser
from outrider.kernel.delivery.shortage_teller import ShortageTeller
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.delivery.target_holds import TargetHolds
from outrider.kernel.receipts.doubt_composer import DoubtComposer
from outrider.kernel.receipts.doubt_settler import DoubtSettler
from outrider.kernel.receipts.found_messages import FoundMessages
from outrider.kernel.receipts.look_up_asker import LookUpAsker
from outrider.kernel.runs.budgeted_store import BudgetedStore
from outrider.kernel.work.held_jobs import HeldJobs
from outrider.kernel.work.job_claimer import JobClaimer
from outrider.kernel.work.job_processor import JobProcessor
from outrider.kernel.work.job_releaser import JobReleaser
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
        self.closer = ResultCloser(foundation, observer, self.journal, shared.right_of_way)
        self.gate = TargetGate(foundation, shared.policies, TargetPolicy(retry=retry), worker_id)
        self._shaper = DomainShaper(foundation, self.gate, lambda: shared.mail_providers, worker_id)
        self._reserver = Reserver(foundation, self.permits, shared.warm_ups)
        self._budgeted = BudgetedStore(foundation.store, shared.settings.state_store.budget())
        self._contract_cache = ContractCache(foundation.store)

    @cached_property
    def routes(self) -> GatewayRoutes:
        names = WorkspaceNames(self._foundation.store, self._foundation.limits)
        chooser = FallbackChooser(self.gate, self._shared.warm_ups)
        return GatewayRoutes(
            self._shared.gateways, self._contract_cache, names, chooser.goes_around
        )

    @cached_property
    def caller(self) -> GatewayCaller:
        shortages = ShortageTeller(self._foundation, this_host())
        # Commands that start no worker do not load OpenTelemetry.
        from outrider.tracing import delivery_tracer

        return GatewayCaller(
            self._foundation, self.closer, self.gate, self.permits, self.journal, self._observer,
            shortages, self._shared.right_of_way, delivery_tracer(),
        )  # fmt: skip

    @cached_property
    def processor(self) -> JobProcessor:
        shared = self._shared
        phase_work = PhaseWork(
            self._foundation, self._budgeted, shared.handlers, shared.phase_contexts,
            self._worker_id,
        )  # fmt: skip
        turns = QueueTurns(self._filter, self.gate.closed_until)
        held = HeldJobs(self._foundation.clock, self._foundation.limits, turns)
        delivery, lane_delivery = self._campaign_delivery(), self._lane_delivery()
        claimer = JobClaimer(
            self._foundation, shared.engine, held, lane_delivery, self.permits, turns,
            self._filter, self.gate.closed, self._worker_id, self._observer,
        )  # fmt: skip
        releaser = JobReleaser(self._foundation, delivery, self.journal, self._worker_id)
        processor = JobProcessor(
            self._foundation, held, claimer, releaser, delivery, lane_delivery, phase_work,
            shared.step_recorder(self._worker_id), self.permits,
        )  # fmt: skip
        self.caller.yields = held.yields
        self.caller.note_sent = shared.sent_tallier.note
        self.caller.meter = shared.call_meter
        shared.receipt_matcher.is_sending = lambda: bool(processor.held)
        return processor

    def _campaign_delivery(self) -> CampaignDelivery:
        shared = self._shared
        drafter = ItemDrafter(self.renderer, shared.ids, self._observer, shared.unsubscriber)
        member_calls = MemberCalls(self._foundation, self.caller, self._shaper)
        opener = MemberOpener(
            self._foundation, shared.member_screens, drafter, self._reserver, self._observer
        )
        return CampaignDelivery(
            self._foundation, self._budgeted, self.routes, self._contract_cache,
            shared.member_screens, drafter, opener, self.caller, member_calls, self._worker_id,
            self._observer,
        )  # fmt: skip

    def _lane_delivery(self) -> LaneDelivery:
        shared = self._shared
        loader = LaneLoader(
            self._foundation, self.routes, self._contract_cache, shared.screener, self.caller,
            self._observer,
        )  # fmt: skip
        opener = LaneOpener(
            self._foundation, shared.screener, EnclosureReader(shared.artifacts),
            shared.unsubscriber, self._reserver, self.caller, self._shaper, self._observer,
        )  # fmt: skip
        return LaneDelivery(self._foundation, loader, opener, self.caller, self._observer)

    @cached_property
    def rescuer(self) -> LeaseRescuer:
        shared = self._shared
        journals = CallJournalFolder(shared.settings.spool)
        return LeaseRescuer(
            self._foundation, journals, self._worker_id, is_dead, shared.clock_is_steady,
            shared.set_clock,
        )  # fmt: skip

    @cached_property
    def settler(self) -> DoubtSettler:
        shared, foundation = self._shared, self._foundation
        composer = DoubtComposer(foundation, self.renderer, shared.unsubscriber)
        living = LivingCallers(foundation, presence)
        messages = FoundMessages(foundation, composer, living)
        asker = LookUpAsker(
            foundation, self._contract_cache, self.gate, messages, living,
            shared.clock_steady_seconds, shared.clock_unseen_seconds, shared.set_clock,
        )  # fmt: skip
        names = WorkspaceNames(foundation.store, foundation.limits)
        return DoubtSettler(foundation, shared.gateways, names, self._contract_cache, asker)

    async def get_ready(self) -> None:
        self._shared.gateways.get_ready()
        await self.processor.get_ready()
        holds = TargetHolds(self._foundation, self.gate)
        await self._inspect_setup(SetupInspector(self.routes, self.gate, holds, self._filter))
        with suppress(StoreUnavailable):
            # Before the first call: later, nobody may be left to say how it was made. What is made
            # while the database is away is noted by the settler's own loop.
            await self.settler.note_recipes()
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
        await self.database_recogniser.recognise()
        await self.set_clock()
        await self.bus_keeper.register()
        worker_id, work_filter = worker_id or this_worker(), work_filter or WorkFilter()
        parts = WorkerParts(self, worker_id, retry, observer or Unobserved(), work_filter)
        reporter = ProgressReporter(self.foundation, self.hub)
        try:
            await parts.get_ready()
            async with (
                self.presence_keeper.working(worker_id, work_filter),
                self.engine.worker(parts.processor) as mover,
            ):
                yield EngineWorker(
                    mover, parts.processor, parts.permits, parts.caller, parts.closer,
                    parts.rescuer, parts.settler, reporter, self.background_loops,
                )  # fmt: skip
        finally:
            await parts.close()
