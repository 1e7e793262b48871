"""Campaigns, phases, runs and signals: what people decide."""

from functools import cached_property

from outrider.bootstrap.engines import EngineRoles
from outrider.bootstrap.storage import StorageRoles
from outrider.documents.campaign import PHASES
from outrider.domain.admission import AdmissionRule
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import Scope
from outrider.domain.mailbox import mailbox
from outrider.engines.process_identity import this_worker
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.gateways.mail_sender import MailSender
from outrider.kernel.access.workspace_names import WorkspaceNames
from outrider.kernel.control.audience_intake import AudienceIntake
from outrider.kernel.control.audience_writer import AudienceWriter
from outrider.kernel.control.campaign_deployer import CampaignDeployer
from outrider.kernel.control.phase_controller import PhaseController
from outrider.kernel.control.phase_restorer import PhaseRestorer
from outrider.kernel.control.refusal_recorder import RefusalRecorder
from outrider.kernel.control.rollout_keeper import RolloutKeeper
from outrider.kernel.control.run_reconciler import RunReconciler
from outrider.kernel.control.run_repointer import RunRepointer
from outrider.kernel.control.run_signaller import RunSignaller
from outrider.kernel.transactions.admission_gate import AdmissionGate
from outrider.kernel.transactions.run_requests import Workspace
from outrider.kernel.work.phase_context import PhaseContexts
from outrider.ports.phases import PhaseHandler
from outrider.reading.reader import DocumentReader


class ControlRoles(EngineRoles, StorageRoles):
    @cached_property
    def deployer(self) -> CampaignDeployer:
        return CampaignDeployer(
            self.foundation, self.audience_writer, self.registry_keeper.contracts, GATEWAY_TYPES,
            self.fallback_of, self._sender_domains,
        )  # fmt: skip

    @cached_property
    def audience_writer(self) -> AudienceWriter:
        return AudienceWriter(self.foundation, self.right_of_way)

    @cached_property
    def audience_intake(self) -> AudienceIntake:
        return AudienceIntake(self.foundation, self.audience_writer, self.document_reader.audience)

    @cached_property
    def document_reader(self) -> DocumentReader:
        return DocumentReader()

    @cached_property
    def handlers(self) -> dict[str, PhaseHandler]:
        # 0.07 s with the DNS library, for those that read or run phases.
        from outrider.phases.registry import load_handlers

        return load_handlers(
            self.settings.nameservers,
            self.settings.allow_private_links,
            self._sender_of,
            has_links=self.settings.public_url is not None,
        )

    async def _sender_domains(self, scope: Scope, submission_target: str) -> frozenset[str]:
        workspace = await WorkspaceNames(self.store, self.limits).of(scope)
        settings = self.target_settings(submission_target).of(workspace)
        usual = mailbox(settings.options.get("from", self.settings.mail_from))
        return frozenset({usual.domain, *settings.allowed_senders})

    async def _sender_of(self, scope: Scope, submission_target: str) -> MailSender | None:
        contract = self.registry_keeper.contracts().get(submission_target)
        if contract is None:
            raise InvalidInput(f"the submission target '{submission_target}' is not registered")
        workspace = await WorkspaceNames(self.store, self.limits).of(scope)
        return self.gateways.mail_sender(
            submission_target, contract.gateway_type, contract.gateway_url, workspace
        )

    @cached_property
    def known_phases(self) -> tuple[str, ...]:
        """What a campaign may list: the launch, and every phase with a handler."""
        return (*PHASES, *(name for name in self.handlers if name not in PHASES))

    @cached_property
    def phase_contexts(self) -> PhaseContexts:
        return PhaseContexts(
            self.foundation, self.artifacts, self.settings.artifact_days, self.certifier
        )

    @cached_property
    def phase_controller(self) -> PhaseController:
        return PhaseController(
            self.foundation, self.deployer, self.handlers, self.phase_contexts, self.hub,
            self.admission_gate, self.engine_notifier, self.blocker_finder,
        )  # fmt: skip

    @cached_property
    def phase_restorer(self) -> PhaseRestorer:
        return PhaseRestorer(self.foundation, self.hub, self.engine_notifier)

    @cached_property
    def admission_gate(self) -> AdmissionGate:
        def rule_of(workspace: Workspace) -> AdmissionRule:
            return self.settings.admission.rule_of(workspace.project, workspace.environment)

        return AdmissionGate(rule_of, self.clock)

    @cached_property
    def run_signaller(self) -> RunSignaller:
        return RunSignaller(
            self.foundation, self.authorisation, self.refusal_recorder, self.phase_controller,
            self.admission_gate, self.hub, self.engine_notifier,
        )  # fmt: skip

    @cached_property
    def refusal_recorder(self) -> RefusalRecorder:
        return RefusalRecorder(self.foundation)

    @cached_property
    def run_reconciler(self) -> RunReconciler:
        return RunReconciler(
            self.foundation, self.admission_gate, self.hub, self.engine_notifier, this_worker()
        )

    @cached_property
    def rollout_keeper(self) -> RolloutKeeper:
        return RolloutKeeper(self.foundation, self.phase_controller, self.engine_notifier)

    @cached_property
    def run_repointer(self) -> RunRepointer:
        return RunRepointer(self.foundation, self.registry_keeper)
