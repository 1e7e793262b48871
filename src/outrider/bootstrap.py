"""The composition root: the only place that knows concrete classes.

Settings go in; a wired `Outrider` comes out, from which entry points take the roles they need.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from outrider.artifact_store import LocalArtifacts
from outrider.authorisation_loader import load_authorisation
from outrider.call_journal import CallJournalFolder, open_journal
from outrider.documents.campaign import PHASES
from outrider.documents.registry import Registry, parse_registry
from outrider.documents.registry_file import LocalRegistryFile
from outrider.domain.admission import AdmissionRule
from outrider.domain.bus_queues import CALLBACKS, message_queue
from outrider.domain.cloud_events import data_schema, message_schema
from outrider.domain.database_urls import masked, require_postgres_url
from outrider.domain.emissions import Emission
from outrider.domain.errors import InvalidInput, StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, Scope, WorkerId
from outrider.domain.reference_memory import NEVER, ReferenceMemory, memory_of
from outrider.domain.retry import DIRECT, RetrySchedule
from outrider.domain.submission import GatewayType
from outrider.domain.targets import TargetPolicy
from outrider.domain.triggers import BUILT_IN_TRIGGERS
from outrider.domain.workflows import RoutePlace
from outrider.engines.local import LocalEngine
from outrider.engines.process_identity import is_dead, presence, this_host, this_worker
from outrider.engines.worker import EngineWorker
from outrider.event_spool import LocalSpool
from outrider.gateways.directory import GATEWAY_TYPES, Gateways
from outrider.kernel.access.answer_finder import AnswerFinder
from outrider.kernel.access.callback_secrets import CallbackSecrets
from outrider.kernel.access.idempotency_keeper import DatabaseIdempotency
from outrider.kernel.access.key_authorisation import KeyAuthorisation
from outrider.kernel.access.key_keeper import KeyKeeper
from outrider.kernel.access.session_keeper import SessionKeeper
from outrider.kernel.access.suppression_keeper import SuppressionKeeper
from outrider.kernel.access.unsubscriber import Unsubscriber
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.bus.bus_keeper import BusKeeper
from outrider.kernel.bus.bus_relay import BusRelay
from outrider.kernel.contracts.contract_cache import ContractCache
from outrider.kernel.contracts.registry_follower import RegistryFollower
from outrider.kernel.contracts.registry_keeper import RegistryKeeper
from outrider.kernel.contracts.target_keeper import TargetKeeper
from outrider.kernel.control.admission_gate import AdmissionGate
from outrider.kernel.control.audience_intake import AudienceIntake
from outrider.kernel.control.audience_writer import AudienceWriter
from outrider.kernel.control.campaign_deployer import CampaignDeployer
from outrider.kernel.control.phase_controller import PhaseController
from outrider.kernel.control.phase_restorer import PhaseRestorer
from outrider.kernel.control.refusal_recorder import RefusalRecorder
from outrider.kernel.control.run_reconciler import RunReconciler
from outrider.kernel.control.run_repointer import RunRepointer
from outrider.kernel.control.run_signaller import RunSignaller
from outrider.kernel.control.stop_sweeper import StopSweeper
from outrider.kernel.delivery.attachment_reader import EnclosureReader
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.campaign_delivery import Delivery
from outrider.kernel.delivery.doubt_resolver import DoubtResolver
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.gateway_routes import GatewayRoutes
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.delivery.lane_delivery import LaneDelivery
from outrider.kernel.delivery.policy_keeper import PolicyKeeper
from outrider.kernel.delivery.reservations import Reserver
from outrider.kernel.delivery.result_closer import ResultCloser
from outrider.kernel.delivery.screener import Screener
from outrider.kernel.delivery.screens import supported_templates
from outrider.kernel.delivery.shortage_teller import ShortageTeller
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.foundation import Foundation
from outrider.kernel.reports.certifier import Certifier
from outrider.kernel.reports.event_explainer import EventExplainer
from outrider.kernel.reports.previewer import Previewer
from outrider.kernel.reports.run_explainer import RunExplainer
from outrider.kernel.runs.budgeted_store import BudgetedStore
from outrider.kernel.runs.projector import Projector
from outrider.kernel.runs.run_reader import RunReader
from outrider.kernel.streams.campaign_event_hub import EventHub
from outrider.kernel.submissions.submission_manager import SubmissionManager
from outrider.kernel.transactions import ledger_clock
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.kernel.transactions.run_requests import Workspace
from outrider.kernel.work.background_loops import BackgroundLoops
from outrider.kernel.work.database_clock import DatabaseClock
from outrider.kernel.work.deadline_expirer import DeadlineExpirer
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.kernel.work.job_dispatcher import JobDispatcher
from outrider.kernel.work.job_processor import JobProcessor
from outrider.kernel.work.job_step_recorder import StepRecorder
from outrider.kernel.work.lease_rescuer import LeaseRescuer
from outrider.kernel.work.phase_context import PhaseContexts
from outrider.kernel.work.phase_work import PhaseWork
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.kernel.work.queue_turns import QueueTurns, WorkFilter
from outrider.kernel.work.setup_inspector import SetupInspector
from outrider.kernel.work.stop_guard import StopGuard
from outrider.kernel.work.watcher import Watcher
from outrider.kernel.workflows.digester import Digester
from outrider.kernel.workflows.event_dry_run import EventDryRun
from outrider.kernel.workflows.event_intake import EventIntake
from outrider.kernel.workflows.event_planner import EventPlanner, Senders
from outrider.kernel.workflows.event_router import EventRouter
from outrider.kernel.workflows.message_composer import MessageComposer
from outrider.kernel.workflows.rule_keeper import RuleKeeper
from outrider.kernel.workflows.step_targets import StepTargets
from outrider.kernel.workflows.workflow_checker import WorkflowChecker
from outrider.limits.access import IDEMPOTENCY_RUNNING_SECONDS, IDEMPOTENCY_TTL_SECONDS
from outrider.limits.api import READY_FREE_BYTES
from outrider.limits.kernel import Limits
from outrider.limits.rendering import PREVIEWS_WAITING_MAX, ROUTING_RENDER_SECONDS
from outrider.limits.stores import REDIS_REST_SECONDS
from outrider.object_artifacts import ObjectArtifacts
from outrider.ports.artifacts import ArtifactStore
from outrider.ports.authorisation import Authorisation
from outrider.ports.bus import Sink
from outrider.ports.clock import Clock, IdSource
from outrider.ports.engine import Engine, Stalled, Worker
from outrider.ports.idempotency import IdempotencyStore
from outrider.ports.legacy import LegacySender
from outrider.ports.phases import PhaseHandler
from outrider.ports.stages import StageObserver, Unobserved
from outrider.ports.store import Store
from outrider.reading.reader import DocumentReader
from outrider.rendering.pool import RenderPool
from outrider.secret_scopes import ScopedSecrets, owners_of
from outrider.secret_store import load_secrets
from outrider.session_secret import SessionSecret
from outrider.settings import Settings, TargetSettings
from outrider.stores.redis_answers import RedisAnswers
from outrider.stores.sqlite.store import SqliteStore
from outrider.system import SystemClock, SystemIds


def make_store(url: str) -> Store:
    """`sqlite:///relative.db`, `sqlite:////absolute.db` or `postgresql://…`."""
    match url.partition(":")[0]:
        case "sqlite":
            path = url.removeprefix("sqlite:///")
            if path == url or not path:
                raise InvalidInput(
                    f"'{masked(url)}' names no file",
                    hint="write sqlite:///outrider.db, or sqlite:////var/lib/outrider.db",
                )
            return SqliteStore(Path(path))
        case "postgresql" | "postgres":
            # 0.04 s with its driver, and most commands are run on SQLite.
            from outrider.stores.postgres.store import PostgresStore

            require_postgres_url(url)
            return PostgresStore(url)
        case _:
            # Nothing of it is repeated: what stands before a colon may be half of a password.
            raise InvalidInput(
                "the database URL is neither of SQLite nor of Postgres",
                hint="use sqlite:///FILE or postgresql://USER@HOST/DATABASE",
            )


def make_gateways(settings: Settings) -> Gateways:
    return Gateways(
        ScopedSecrets(load_secrets(), owners_of(settings.targets)),
        mail_from=settings.mail_from,
        targets=settings.targets,
        allow_private=settings.allow_private_gateways,
    )


def make_artifacts(place: Path | str) -> ArtifactStore:
    """A folder, or an object store's URL."""
    if "://" in str(place):
        return ObjectArtifacts(str(place))
    return LocalArtifacts(Path(place))


def load_registry(path: Path) -> Registry:
    return parse_registry(LocalRegistryFile(path).read(), GATEWAY_TYPES)


def target_policy(settings: TargetSettings) -> TargetPolicy:
    """An operator's settings of a target as the kernel's own values."""
    rate = settings.rate_per_second
    return TargetPolicy(
        rate_per_second=rate,
        burst=settings.burst or max(1, int(rate or 1)),
        breaker_failures=settings.breaker_failures,
        breaker_seconds=settings.breaker_seconds,
        retry=_retry(settings),
        fallback=settings.fallback,
    )


def _retry(settings: TargetSettings) -> RetrySchedule | None:
    """None where nothing is set: then it is what is usual for the target's gateway type."""
    first, factor = settings.retry_first_seconds, settings.retry_factor
    cap = settings.retry_cap_seconds
    if first is None and factor is None and cap is None:
        return None
    return RetrySchedule(
        DIRECT.first_seconds if first is None else first,
        DIRECT.factor if factor is None else factor,
        DIRECT.cap_seconds if cap is None else cap,
    )


def make_engine(
    settings: Settings,
    limits: Limits,
    tell_stuck: Callable[[Stalled, int], Awaitable[None]] | None = None,
) -> Engine:
    if settings.engine == "local":
        return LocalEngine()
    try:
        # 0.3 s with its library, and only for those who have it.
        from outrider.engines.temporal.connection import TemporalConnection
        from outrider.engines.temporal.engine import TemporalEngine
    except ImportError as error:
        raise InvalidInput(
            f"the engine 'temporal' is not installed: {error}",
            hint="pip install 'outrider[temporal]'",
        ) from error
    connection = TemporalConnection(settings, load_secrets(), this_worker())
    return TemporalEngine(connection, settings, limits, tell_stuck)


@dataclass
class Outrider:
    """One process's view of Outrider: a store, gateways, and the roles over them."""

    settings: Settings
    limits: Limits
    store: Store
    gateways: Gateways
    clock: Clock
    ids: IdSource
    preview_renderer: RenderPool
    routing_renderer: RenderPool

    @property
    def foundation(self) -> Foundation:
        return Foundation(self.store, self.clock, self.ids, self.limits)

    @cached_property
    def registry_keeper(self) -> RegistryKeeper:
        return RegistryKeeper(
            LocalRegistryFile(self.settings.registry),
            lambda raw: parse_registry(raw, GATEWAY_TYPES).contracts,
        )

    @cached_property
    def registry_follower(self) -> RegistryFollower:
        return RegistryFollower(self.foundation, self.registry_keeper)

    @property
    def registry(self) -> Registry:
        """As it is in force now; a reload gives another one."""
        return Registry(dict(self.registry_keeper.contracts()))

    @cached_property
    def deployer(self) -> CampaignDeployer:
        return CampaignDeployer(
            self.foundation,
            self.audience_writer,
            self.registry_keeper.contracts,
            GATEWAY_TYPES,
            self.fallback_of,
        )

    @cached_property
    def audience_writer(self) -> AudienceWriter:
        return AudienceWriter(self.foundation)

    @cached_property
    def document_reader(self) -> DocumentReader:
        return DocumentReader()

    @cached_property
    def submissions(self) -> SubmissionManager:
        return SubmissionManager(
            self.foundation,
            self.registry_keeper.contracts,
            GATEWAY_TYPES,
            self.fallback_of,
            self.wake_lanes,
            self.registry_follower.refresh,
            allow_private_callbacks=self.settings.allow_private_callbacks,
        )

    @cached_property
    def callback_secrets(self) -> CallbackSecrets:
        return CallbackSecrets(self.foundation, os.urandom)

    def wake_lanes(self) -> None:
        """Single messages are due: whoever takes them here need not wait for its next look."""
        if isinstance(self.engine, LocalEngine):
            self.engine.wake()
        else:
            self.engine_notifier.wake()

    @property
    def gateway_types(self) -> Mapping[str, GatewayType]:
        """What the code knows of each gateway family."""
        return GATEWAY_TYPES

    def target_settings(self, submission_target: str) -> TargetSettings:
        return self.settings.targets.get(submission_target, TargetSettings())

    def reference_memory(self, submission_target: str) -> ReferenceMemory:
        """How long it is declared to remember references; of a target that is gone, never."""
        contract = self.registry_keeper.contracts().get(submission_target)
        if contract is None:
            return NEVER
        documented = GATEWAY_TYPES[contract.gateway_type].remembers
        return memory_of(documented, self.target_settings(submission_target).reference_memory)

    @cached_property
    def policies(self) -> dict[str, TargetPolicy]:
        return {name: target_policy(each) for name, each in self.settings.targets.items()}

    def fallback_of(self, submission_target: str) -> str | None:
        policy = self.policies.get(submission_target)
        return policy.fallback if policy else None

    @cached_property
    def audience_intake(self) -> AudienceIntake:
        return AudienceIntake(self.foundation, self.audience_writer, self.document_reader.audience)

    @cached_property
    def previewer(self) -> Previewer:
        from outrider.rendering.variables import variables_of

        return Previewer(self.store, self.preview_renderer, self.unsubscriber, variables_of)

    @cached_property
    def suppression_keeper(self) -> SuppressionKeeper:
        return SuppressionKeeper(self.foundation)

    @cached_property
    def unsubscriber(self) -> Unsubscriber:
        return Unsubscriber(self.foundation, os.urandom, self.settings.public_url)

    @cached_property
    def legacy_senders(self) -> Senders:
        from outrider.legacy.registry import load_senders

        by_trigger: dict[str, dict[RoutePlace, LegacySender]] = {}
        for (trigger, place), sender in load_senders().items():
            by_trigger.setdefault(trigger, {})[place] = sender
        return by_trigger

    @cached_property
    def triggers(self) -> frozenset[str]:
        """Those that are known without a rule."""
        return BUILT_IN_TRIGGERS | frozenset(self.legacy_senders)

    @cached_property
    def policy_keeper(self) -> PolicyKeeper:
        return PolicyKeeper(self.foundation)

    @cached_property
    def rule_keeper(self) -> RuleKeeper:
        return RuleKeeper(self.foundation, self.step_targets, self.policy_keeper)

    @cached_property
    def workflow_checker(self) -> WorkflowChecker:
        from outrider.rendering.checker import check_template

        return WorkflowChecker(
            self.store, GATEWAY_TYPES, self.settings.workflow_targets, self.legacy_senders,
            check_template,
        )  # fmt: skip

    @cached_property
    def screener(self) -> Screener:
        senders = self.legacy_senders.values()
        templates = supported_templates(each for placed in senders for each in placed.values())
        return Screener(self.foundation, self.policy_keeper, templates)

    @cached_property
    def event_intake(self) -> EventIntake:
        return EventIntake(self.foundation, self.triggers, self.event_router.wake)

    @cached_property
    def event_explainer(self) -> EventExplainer:
        return EventExplainer(self.store, self.limits)

    async def emit(
        self,
        trigger: str,
        *,
        event_id: str,
        subject: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        occurred_at: datetime | None = None,
        scope: Scope = DEFAULT_SCOPE,
    ) -> tuple[StoredEvent, bool]:
        """Tell of something that happened: the event as it stands, and whether it is new."""
        emission = Emission(event_id, trigger, subject or {}, variables or {}, occurred_at)
        return await self.event_intake.emit(scope, emission)

    @cached_property
    def step_targets(self) -> StepTargets:
        return StepTargets(
            self.registry_keeper.contracts, GATEWAY_TYPES, self.settings.workflow_targets
        )

    @cached_property
    def digester(self) -> Digester:
        return Digester(
            self.foundation,
            self.routing_renderer,
            self.step_targets,
            self.registry_keeper.contracts,
            self.fallback_of,
            self.unsubscriber,
            self.wake_lanes,
        )

    @cached_property
    def deadline_expirer(self) -> DeadlineExpirer:
        return DeadlineExpirer(self.foundation)

    @cached_property
    def target_keeper(self) -> TargetKeeper:
        return TargetKeeper(self.foundation)

    @cached_property
    def event_router(self) -> EventRouter:
        contracts = self.registry_keeper.contracts
        planner = self._route_planner(self.routing_renderer)
        return EventRouter(
            self.foundation,
            planner,
            contracts,
            self.fallback_of,
            self.unsubscriber,
            self.wake_lanes,
        )

    @cached_property
    def event_rehearser(self) -> EventDryRun:
        # By the renderer of previews: what somebody tries out holds up no real event.
        planner = self._route_planner(self.preview_renderer)
        return EventDryRun(self.foundation, planner, self.settings.public_url)

    def _route_planner(self, renderer: RenderPool) -> EventPlanner:
        executor = MessageComposer(renderer, self.step_targets, self.fallback_of, self.ids)
        return EventPlanner(executor, self.legacy_senders, self.triggers, self.limits)

    @cached_property
    def known_phases(self) -> tuple[str, ...]:
        """What a campaign may list: the launch, and every phase with a handler."""
        return (*PHASES, *(name for name in self.handlers if name not in PHASES))

    @cached_property
    def hub(self) -> EventHub:
        return EventHub(self.store, self.limits)

    @cached_property
    def handlers(self) -> dict[str, PhaseHandler]:
        # 0.07 s with the DNS library, for those that read or run phases.
        from outrider.phases.registry import load_handlers

        return load_handlers(self.settings.nameservers, self.settings.allow_private_links)

    @cached_property
    def artifacts(self) -> ArtifactStore:
        return make_artifacts(self.settings.artifacts)

    @cached_property
    def phase_contexts(self) -> PhaseContexts:
        return PhaseContexts(
            self.foundation, self.artifacts, self.settings.artifact_days, self.certifier
        )

    @cached_property
    def engine(self) -> Engine:
        return make_engine(self.settings, self.limits, self.watcher.tell_stuck_workflow)

    async def reach_engine(self) -> None:
        """EngineUnavailable where it is one with a server, and that does not answer."""
        if not isinstance(self.engine, LocalEngine):
            from outrider.engines.temporal.engine import TemporalEngine

            assert isinstance(self.engine, TemporalEngine)
            await self.engine.reach()

    @cached_property
    def engine_notifier(self) -> EngineNotifier:
        return EngineNotifier(self.foundation, self.engine)

    @cached_property
    def phase_controller(self) -> PhaseController:
        return PhaseController(
            self.foundation,
            self.deployer,
            self.handlers,
            self.phase_contexts,
            self.hub,
            self.admission_gate,
            self.engine_notifier,
        )

    @cached_property
    def admission_gate(self) -> AdmissionGate:
        def rule_of(workspace: Workspace) -> AdmissionRule:
            return self.settings.admission.rule_of(workspace.project, workspace.environment)

        return AdmissionGate(rule_of, self.clock)

    @cached_property
    def run_signaller(self) -> RunSignaller:
        return RunSignaller(
            self.foundation,
            self.authorisation,
            self.refusal_recorder,
            self.phase_controller,
            self.admission_gate,
            self.hub,
            self.engine_notifier,
        )

    @cached_property
    def authorisation(self) -> Authorisation:
        name = self.settings.authorisation
        return KeyAuthorisation() if name is None else load_authorisation(name)

    @cached_property
    def refusal_recorder(self) -> RefusalRecorder:
        return RefusalRecorder(self.foundation)

    @cached_property
    def stop_guard(self) -> StopGuard:
        return StopGuard(self.foundation)

    @cached_property
    def run_explainer(self) -> RunExplainer:
        return RunExplainer(self.foundation, self.registry_keeper)

    @cached_property
    def run_repointer(self) -> RunRepointer:
        return RunRepointer(self.foundation, self.registry_keeper)

    @cached_property
    def run_reconciler(self) -> RunReconciler:
        return RunReconciler(
            self.foundation, self.admission_gate, self.hub, self.engine_notifier, this_worker()
        )

    def step_recorder(self, worker_id: WorkerId) -> StepRecorder:
        return StepRecorder(
            self.foundation,
            LocalSpool(self.settings.spool, self.ids),
            self.settings.state_store.budget(),
            worker_id,
        )

    @cached_property
    def projector(self) -> Projector:
        return Projector(self.foundation)

    @cached_property
    def run_reader(self) -> RunReader:
        return RunReader(self.store, self.limits)

    @cached_property
    def watcher(self) -> Watcher:
        spool = self.settings.spool
        spools = {f"{this_host()}:{spool}": LocalSpool(spool, self.ids)}
        return Watcher(self.foundation, spools)

    @cached_property
    def background_loops(self) -> BackgroundLoops:
        """The loops beside requests and jobs, each once in this process."""
        return BackgroundLoops(
            {
                "watcher": self.watcher.run,
                "refusal recorder": self.refusal_recorder.run,
                "projector": self.projector.run,
                "run reconciler": self.run_reconciler.run,
                "event router": self.event_router.run,
                "digester": self.digester.run,
                "deadline expirer": self.deadline_expirer.run,
                "intake cleaner": self.audience_writer.clean,
                "registry follower": self.registry_follower.run,
                **({"clock": self.clock.run} if isinstance(self.clock, DatabaseClock) else {}),
                "stop sweeper": StopSweeper(self.foundation).run,
                "spool": self.step_recorder(this_worker()).reconcile,
                **{f"bus relay {relay.name}": relay.run for relay in self.bus_relays},
                # The local engine's workers look into the queue themselves.
                **(
                    {}
                    if self.settings.engine == "local"
                    else {"engine_notifier": self.engine_notifier.run}
                ),
            },
            self.clock,
            self.limits,
        )

    @cached_property
    def bus_keeper(self) -> BusKeeper:
        return BusKeeper(self.foundation, list(self.settings.bus))

    @cached_property
    def sinks(self) -> dict[str, Sink]:
        """Those that the settings name; InvalidInput where one cannot be made."""
        # 0.2 s with the HTTP library, where no gateway has loaded it already.
        from outrider.sinks.directory import make_sink

        return {
            name: make_sink(
                name, each, load_secrets(), self.clock,
                allow_private=self.settings.allow_private_gateways,
            )
            for name, each in self.settings.bus.items()
        }  # fmt: skip

    @cached_property
    def callback_sink(self) -> Sink:
        from outrider.sinks.callbacks import CallbackSink

        return CallbackSink(
            self.callback_secrets.secret_of,
            self.clock,
            allow_private=self.settings.allow_private_callbacks,
        )

    @cached_property
    def bus_relays(self) -> list[BusRelay]:
        """Of each sink one for its run events and one for its messages; and the callbacks'."""
        url = self.settings.public_url
        runs, messages = data_schema(url), message_schema(url)
        relays = [
            self._relay(queue, sink, schema, self.settings.bus[name].max_attempts)
            for name, sink in self.sinks.items()
            for queue, schema in ((name, runs), (message_queue(name), messages))
        ]
        return [*relays, self._relay(CALLBACKS, self.callback_sink, messages)]

    def _relay(
        self, queue: str, sink: Sink, schema: str, max_attempts: int | None = None
    ) -> BusRelay:
        return BusRelay(
            self.foundation, queue, sink, this_worker(), is_dead, max_attempts=max_attempts,
            schema=schema,
        )  # fmt: skip

    async def close(self) -> None:
        for sink in self.__dict__.get("sinks", {}).values():
            await sink.close()
        if "callback_sink" in self.__dict__:
            await self.callback_sink.close()

    @cached_property
    def phase_restorer(self) -> PhaseRestorer:
        return PhaseRestorer(self.foundation, self.hub, self.engine_notifier)

    @cached_property
    def certifier(self) -> Certifier:
        return Certifier(self.foundation, self.reference_memory)

    @cached_property
    def doubt_resolver(self) -> DoubtResolver:
        return DoubtResolver(self.foundation, self.gateways, presence)

    @cached_property
    def idempotency(self) -> IdempotencyStore:
        """With what the keys guard, in the same database: their transactions are the same."""
        return DatabaseIdempotency(
            self.foundation, IDEMPOTENCY_TTL_SECONDS, IDEMPOTENCY_RUNNING_SECONDS
        )

    @cached_property
    def answer_finder(self) -> AnswerFinder:
        """Redis where one is set, which finds a repeated request's answer without the database."""
        url = self.settings.redis_url
        cache = None if url is None else RedisAnswers(url, IDEMPOTENCY_TTL_SECONDS)
        return AnswerFinder(cache, self.clock, REDIS_REST_SECONDS)

    @cached_property
    def key_keeper(self) -> KeyKeeper:
        return KeyKeeper(self.foundation, os.urandom, self.settings.root_key)

    @cached_property
    def session_keeper(self) -> SessionKeeper:
        settings = self.settings
        secret = SessionSecret(settings.session_secret, load_secrets(), settings.spool)
        return SessionKeeper(
            self.foundation, self.key_keeper, os.urandom, settings.root_key, secret.read
        )

    async def set_clock(self) -> None:
        """From now on by the database's time; a test's own clock is left alone."""
        if isinstance(self.clock, DatabaseClock):
            await self.clock.look()

    async def check_writable(self) -> None:
        """StoreUnavailable where nothing can be written, or little more."""
        now = self.clock.now()
        most = now + timedelta(seconds=self.limits.clock_ahead_seconds)
        await self.store.write(ledger_clock.keep(now, most))
        path = self.settings.database_url.removeprefix("sqlite:///")
        if path == self.settings.database_url:
            return
        free = await asyncio.to_thread(lambda: shutil.disk_usage(Path(path).parent).free)
        if free < READY_FREE_BYTES:
            raise StoreUnavailable(
                f"the disk of the database has {free:,} bytes left",
                hint="make room on it; what waits goes on by itself",
            )

    def _clock_is_steady(self) -> bool:
        return not isinstance(self.clock, DatabaseClock) or self.clock.is_steady

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
        name = worker_id or this_worker()
        watch = observer or Unobserved()
        renderer = RenderPool()
        journal = open_journal(self.settings.spool, name)
        closer = ResultCloser(self.foundation, watch, journal)
        permits = CallPermits(self.foundation)
        reserver = Reserver(self.foundation, permits)
        contract_cache = ContractCache(self.store)
        gate = TargetGate(self.foundation, self.policies, TargetPolicy(retry=retry), name)
        routes = GatewayRoutes(
            self.gateways, contract_cache, WorkspaceNames(self.store, self.limits)
        )
        shortages = ShortageTeller(self.foundation, this_host())
        caller = GatewayCaller(self.foundation, closer, gate, permits, journal, watch, shortages)
        drafter = ItemDrafter(renderer, self.ids, watch, self.unsubscriber)
        budgeted = BudgetedStore(self.store, self.settings.state_store.budget())
        delivery = Delivery(
            self.foundation,
            budgeted,
            routes,
            contract_cache,
            drafter,
            reserver,
            caller,
            name,
            watch,
        )
        lanes = LaneDelivery(
            self.foundation,
            routes,
            contract_cache,
            self.screener,
            EnclosureReader(self.artifacts),
            self.unsubscriber,
            reserver,
            caller,
            watch,
        )
        phase_work = PhaseWork(self.foundation, budgeted, self.handlers, self.phase_contexts, name)
        wanted = work_filter or WorkFilter()
        turns = QueueTurns(wanted, gate.closed_until)
        processor = JobProcessor(
            self.foundation,
            self.engine,
            delivery,
            lanes,
            phase_work,
            self.step_recorder(name),
            permits,
            journal,
            turns,
            wanted,
            gate.closed,
            name,
            watch,
        )
        caller.yields = processor.yields
        journals = CallJournalFolder(self.settings.spool)
        rescuer = LeaseRescuer(self.foundation, journals, name, is_dead, self._clock_is_steady)
        reporter = ProgressReporter(self.foundation, self.hub)
        try:
            self.gateways.get_ready()
            await processor.get_ready()
            await self._inspect_setup(SetupInspector(routes, gate, wanted))
            await renderer.start()
            with self._mover(processor) as mover:
                yield EngineWorker(
                    mover,
                    processor,
                    permits,
                    caller,
                    closer,
                    rescuer,
                    reporter,
                    self.background_loops,
                )
        finally:
            journal.close()
            await renderer.close()

    async def _inspect_setup(self, inspector: SetupInspector) -> None:
        """Without a registry there is nothing to look at: workers go on with what is in the
        database."""
        try:
            contracts = self.registry_keeper.contracts().values()
        except InvalidInput:
            return
        await inspector.inspect(contracts)

    @contextmanager
    def _mover(self, processor: JobProcessor) -> Iterator[Worker]:
        if isinstance(self.engine, LocalEngine):
            dispatcher = JobDispatcher(self.foundation, processor)
            with self.engine.waking(dispatcher):
                yield dispatcher
            return
        from outrider.engines.temporal.activities import WorkActivities
        from outrider.engines.temporal.engine import TemporalEngine
        from outrider.engines.temporal.mover import TemporalMover

        assert isinstance(self.engine, TemporalEngine)
        activities = WorkActivities(self.foundation, processor)
        yield TemporalMover(self.engine, activities, self.settings.temporal_task_queue, self.limits)


@asynccontextmanager
async def open_outrider(
    settings: Settings,
    *,
    limits: Limits | None = None,
    clock: Clock | None = None,
    machine_clock: Clock | None = None,
) -> AsyncIterator[Outrider]:
    """`clock` is the time of everything; without it, it is the database's, as `machine_clock`
    carries it on."""
    store = make_store(settings.database_url)
    limits = limits or settings.limits()
    ids = SystemIds()
    if clock is None:
        clock = DatabaseClock(machine_clock or SystemClock(), store, ids, limits, this_host())
    gateways = make_gateways(settings)
    preview_renderer = RenderPool(waiting=PREVIEWS_WAITING_MAX)
    # One workspace's slow templates are not to hold up the events of the others for long.
    routing_renderer = RenderPool(window_seconds=ROUTING_RENDER_SECONDS)
    outrider = Outrider(
        settings,
        limits,
        store,
        gateways,
        clock,
        ids,
        preview_renderer,
        routing_renderer,
    )
    try:
        yield outrider
    finally:
        await outrider.close()
        await preview_renderer.close()
        await routing_renderer.close()
        await gateways.close()
        await store.close()
