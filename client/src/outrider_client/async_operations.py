"""A method for each call, for AsyncClient.

Generated from the OpenAPI document by `make docs`; do not edit.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

from outrider_client.base import Page
from outrider_client.calls import Call, Content, call
from outrider_client.models import (
    AlertAnswer,
    AllRedriven,
    AllResolved,
    ArtifactAnswer,
    AudienceAdded,
    AuditAnswer,
    BeginBody,
    BypassAnswer,
    CallbackSecretAnswer,
    CampaignAnswer,
    CampaignCreated,
    CampaignLine,
    CampaignState,
    CampaignStatus,
    CertificateAnswer,
    Channel,
    ControlBody,
    ControlDone,
    DiffAnswer,
    DoubtAnswer,
    DoubtCountsAnswer,
    DoubtVerdict,
    DryRun,
    DryRunBody,
    EmissionDocument,
    ErasureAnswer,
    EventAnswer,
    EventExplanation,
    EventStatus,
    Explanation,
    IntentAnswer,
    IntentBatchAnswer,
    IntentBatchBody,
    IntentBody,
    IntentLineAnswer,
    IntentStatus,
    ItemAnswer,
    ItemLine,
    ItemStatus,
    JobAnswer,
    KeyAnswer,
    KeyBody,
    LetterAnswer,
    MatchBody,
    Matched,
    NewKey,
    PersonAnswer,
    PhaseState,
    PolicyAnswer,
    PolicyPut,
    Preview,
    PreviewBody,
    ReceiptAnswer,
    Reconciled,
    Redriven,
    RegistryAnswer,
    RehearsalAnswer,
    RehearsalBody,
    RepointedAnswer,
    Rerouted,
    RerunBody,
    Resolved,
    RevokedKey,
    RuleAnswer,
    RulePut,
    RuleWithStepsAnswer,
    RunAnswer,
    RunEventLine,
    RunExplanation,
    RunLine,
    RunSnapshotAnswer,
    RunVariantsAnswer,
    SearchAnswer,
    Settles,
    SignalBody,
    SignalDone,
    StepAnswer,
    StepPut,
    SuppressionAnswer,
    SuppressionsBody,
    SuppressionsDone,
    TargetControlled,
    TargetsAnswer,
    ThroughputAnswer,
    TroubleAnswer,
    UnsuppressBody,
    VerdictBody,
    VerdictsBody,
    WholeEvent,
    WorkerAnswer,
    WorkflowsAnswer,
)

Answer = TypeVar("Answer")


class AsyncOperations(ABC):
    @abstractmethod
    async def _ask(self, asked: Call[Answer]) -> Answer: ...

    async def create_campaign(
        self, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> CampaignCreated:
        """Create a campaign; on mistakes, nothing is created and all are listed."""
        return await self._ask(
            call(
                "POST",
                ("campaigns",),
                CampaignCreated,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_campaigns(
        self,
        *,
        state: CampaignState | None = None,
        q: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page[CampaignLine]:
        """List campaigns with their state, newest first.

        With a filter a page may be short, or empty, even if more pages follow.
        """
        return await self._ask(
            call(
                "GET",
                ("campaigns",),
                Page[CampaignLine],
                query={"state": state, "q": q, "limit": limit, "after": after},
            )
        )

    async def get_campaign(self, campaign_id: str) -> CampaignAnswer:
        """Get a campaign's definition, without its audience."""
        return await self._ask(
            call(
                "GET",
                (
                    "campaigns",
                    campaign_id,
                ),
                CampaignAnswer,
            )
        )

    async def preview_message(
        self,
        campaign_id: str,
        body: PreviewBody | Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Preview:
        """Preview a message for one recipient; nothing is sent."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "preview",
                ),
                Preview,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def add_audience(
        self,
        campaign_id: str,
        content: Content,
        media_type: str = "text/csv",
        *,
        idempotency_key: str | None = None,
    ) -> AudienceAdded:
        """Add recipients from CSV or NDJSON; on mistakes, nothing is added and all are listed."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "audience",
                ),
                AudienceAdded,
                content=content,
                media_type=media_type,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get_campaign_status(self, campaign_id: str) -> CampaignStatus:
        """Get the snapshot of a campaign (contract 003)."""
        return await self._ask(
            call(
                "GET",
                (
                    "campaigns",
                    campaign_id,
                    "status",
                ),
                CampaignStatus,
            )
        )

    async def dry_run_launch(
        self,
        campaign_id: str,
        body: DryRunBody | Mapping[str, Any] | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> DryRun:
        """Count recipients that would be sent to or skipped, and why; nothing is sent."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "phases",
                    "launch",
                    "dry-run",
                ),
                DryRun,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def stop_campaign(
        self,
        campaign_id: str,
        body: ControlBody | Mapping[str, Any] | None = None,
        *,
        expected_state: PhaseState | None = None,
        idempotency_key: str | None = None,
    ) -> ControlDone:
        """Stop the running phase."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "stop",
                ),
                ControlDone,
                query={"expected_state": expected_state},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def rerun_phase(
        self,
        campaign_id: str,
        phase: str,
        body: RerunBody | Mapping[str, Any] | None = None,
        *,
        expected_state: PhaseState | None = None,
        idempotency_key: str | None = None,
    ) -> ControlDone:
        """Run a completed phase again, for the remainder or for everyone."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "phases",
                    phase,
                    "rerun",
                ),
                ControlDone,
                query={"expected_state": expected_state},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def start_phase(
        self,
        campaign_id: str,
        phase: str,
        body: BeginBody | Mapping[str, Any] | None = None,
        *,
        expected_state: PhaseState | None = None,
        idempotency_key: str | None = None,
    ) -> ControlDone:
        """Start a phase."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "phases",
                    phase,
                    "start",
                ),
                ControlDone,
                query={"expected_state": expected_state},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def pause_phase(
        self,
        campaign_id: str,
        phase: str,
        body: ControlBody | Mapping[str, Any] | None = None,
        *,
        expected_state: PhaseState | None = None,
        idempotency_key: str | None = None,
    ) -> ControlDone:
        """Pause a phase: calls in progress finish, no new attempt is opened."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "phases",
                    phase,
                    "pause",
                ),
                ControlDone,
                query={"expected_state": expected_state},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def resume_phase(
        self,
        campaign_id: str,
        phase: str,
        body: ControlBody | Mapping[str, Any] | None = None,
        *,
        expected_state: PhaseState | None = None,
        idempotency_key: str | None = None,
    ) -> ControlDone:
        """Resume a paused phase."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "phases",
                    phase,
                    "resume",
                ),
                ControlDone,
                query={"expected_state": expected_state},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def stop_phase(
        self,
        campaign_id: str,
        phase: str,
        body: ControlBody | Mapping[str, Any] | None = None,
        *,
        expected_state: PhaseState | None = None,
        idempotency_key: str | None = None,
    ) -> ControlDone:
        """Stop a phase: items not attempted yet are skipped."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "phases",
                    phase,
                    "stop",
                ),
                ControlDone,
                query={"expected_state": expected_state},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def retry_phase(
        self,
        campaign_id: str,
        phase: str,
        body: BeginBody | Mapping[str, Any] | None = None,
        *,
        expected_state: PhaseState | None = None,
        idempotency_key: str | None = None,
    ) -> ControlDone:
        """Retry a failed phase."""
        return await self._ask(
            call(
                "POST",
                (
                    "campaigns",
                    campaign_id,
                    "phases",
                    phase,
                    "retry",
                ),
                ControlDone,
                query={"expected_state": expected_state},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_runs(
        self, campaign_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Page[RunLine]:
        """List a campaign's runs with their accounting, newest first."""
        return await self._ask(
            call(
                "GET",
                (
                    "campaigns",
                    campaign_id,
                    "runs",
                ),
                Page[RunLine],
                query={"limit": limit, "after": after},
            )
        )

    async def get_run(self, run_id: str, *, reasons: bool | None = None) -> RunAnswer:
        """Get a run with its accounting."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                ),
                RunAnswer,
                query={"reasons": reasons},
            )
        )

    async def get_variants(self, run_id: str) -> RunVariantsAnswer:
        """Get the A/B variants of a run's messages with their figures."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "variants",
                ),
                RunVariantsAnswer,
            )
        )

    async def explain_run(self, run_id: str) -> RunExplanation:
        """Explain a run's status."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "explain",
                ),
                RunExplanation,
            )
        )

    async def get_certificate(self, run_id: str) -> CertificateAnswer:
        """Get the launch certificate, counted from the ledger."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "certificate",
                ),
                CertificateAnswer,
            )
        )

    async def get_evidence(self, run_id: str, *, recipient_id: str | None = None) -> bytes:
        """Download a run's signed evidence bundle, or one recipient's proof."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "evidence",
                ),
                bytes,
                query={"recipientId": recipient_id},
            )
        )

    async def get_throughput(self, run_id: str, *, buckets: int | None = None) -> ThroughputAnswer:
        """Get a run's throughput over time."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "throughput",
                ),
                ThroughputAnswer,
                query={"buckets": buckets},
            )
        )

    async def list_jobs(
        self, run_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Page[JobAnswer]:
        """List a run's jobs."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "jobs",
                ),
                Page[JobAnswer],
                query={"limit": limit, "after": after},
            )
        )

    async def list_outbox(
        self,
        run_id: str,
        *,
        status: ItemStatus | None = None,
        recipient_id: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page[ItemLine]:
        """List a run's ledger items."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "outbox",
                ),
                Page[ItemLine],
                query={
                    "status": status,
                    "recipientId": recipient_id,
                    "limit": limit,
                    "after": after,
                },
            )
        )

    async def list_run_events(
        self, run_id: str, *, limit: int | None = None, after: int | None = None
    ) -> Page[RunEventLine]:
        """List a run's events in order."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "events",
                ),
                Page[RunEventLine],
                query={"limit": limit, "after": after},
            )
        )

    async def get_run_snapshot(self, run_id: str, *, at: int | None = None) -> RunSnapshotAnswer:
        """Get a run's snapshot, now or after one of its events."""
        return await self._ask(
            call(
                "GET",
                (
                    "runs",
                    run_id,
                    "snapshot",
                ),
                RunSnapshotAnswer,
                query={"at": at},
            )
        )

    async def signal_run(
        self,
        run_id: str,
        body: SignalBody | Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> SignalDone:
        """Approve, pause, resume, cancel or advance a run, choose a variant, or retry a job.

        Which scope a signal takes is decided by the signal: APPROVE needs `admin`, the others
        `operate`. A refusal is recorded in the run's log too.
        """
        return await self._ask(
            call(
                "POST",
                (
                    "runs",
                    run_id,
                    "signals",
                ),
                SignalDone,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get_item(self, outbox_id: str) -> ItemAnswer:
        """Get an item with its attempts."""
        return await self._ask(
            call(
                "GET",
                (
                    "outbox",
                    outbox_id,
                ),
                ItemAnswer,
            )
        )

    async def explain_item(self, outbox_id: str) -> Explanation:
        """Explain why an item was or was not sent."""
        return await self._ask(
            call(
                "GET",
                (
                    "outbox",
                    outbox_id,
                    "explain",
                ),
                Explanation,
            )
        )

    async def list_doubts(
        self,
        *,
        limit: int | None = None,
        after: str | None = None,
        run_id: str | None = None,
        campaign_id: str | None = None,
        submission_target: str | None = None,
        reason: str | None = None,
        settles: Settles | None = None,
    ) -> Page[DoubtAnswer]:
        """List items in doubt."""
        return await self._ask(
            call(
                "GET",
                ("doubts",),
                Page[DoubtAnswer],
                query={
                    "limit": limit,
                    "after": after,
                    "runId": run_id,
                    "campaignId": campaign_id,
                    "submissionTarget": submission_target,
                    "reason": reason,
                    "settles": settles,
                },
            )
        )

    async def count_doubts(
        self,
        *,
        run_id: str | None = None,
        campaign_id: str | None = None,
        submission_target: str | None = None,
        reason: str | None = None,
        settles: Settles | None = None,
    ) -> DoubtCountsAnswer:
        """Count items in doubt by evidence, target, reason and campaign."""
        return await self._ask(
            call(
                "GET",
                (
                    "doubts",
                    "counts",
                ),
                DoubtCountsAnswer,
                query={
                    "runId": run_id,
                    "campaignId": campaign_id,
                    "submissionTarget": submission_target,
                    "reason": reason,
                    "settles": settles,
                },
            )
        )

    async def resolve_doubts(
        self, body: VerdictsBody | Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> AllResolved:
        """Resolve many items at once; without `confirm` they are only counted."""
        return await self._ask(
            call(
                "POST",
                (
                    "doubts",
                    "resolve",
                ),
                AllResolved,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def reconcile_doubts(
        self,
        content: Content,
        media_type: str = "application/octet-stream",
        *,
        submission_target: str,
        file_name: str | None = None,
        mapping: str | None = None,
        statuses: str | None = None,
        absent: DoubtVerdict | None = None,
        run_id: str | None = None,
        campaign_id: str | None = None,
        force: bool | None = None,
        confirm: bool | None = None,
        idempotency_key: str | None = None,
    ) -> Reconciled:
        """Match a provider's export with doubts; without `confirm` nothing is changed."""
        return await self._ask(
            call(
                "POST",
                (
                    "doubts",
                    "reconcile",
                ),
                Reconciled,
                query={
                    "submissionTarget": submission_target,
                    "fileName": file_name,
                    "mapping": mapping,
                    "statuses": statuses,
                    "absent": absent,
                    "runId": run_id,
                    "campaignId": campaign_id,
                    "force": force,
                    "confirm": confirm,
                },
                content=content,
                media_type=media_type,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def resolve_doubt(
        self,
        outbox_id: str,
        body: VerdictBody | Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> Resolved:
        """Resolve an item in doubt, with evidence."""
        return await self._ask(
            call(
                "POST",
                (
                    "doubts",
                    outbox_id,
                    "resolve",
                ),
                Resolved,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def submit_intent(self, body: IntentBody | Mapping[str, Any]) -> IntentAnswer:
        """Submit a single message."""
        return await self._ask(call("POST", ("intents",), IntentAnswer, body=body))

    async def list_intents(
        self,
        *,
        status: IntentStatus | None = None,
        submission_target: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page[IntentLineAnswer]:
        """List the intents of the workspace, newest first.

        With `status` or `submissionTarget`, a page examines at most 10,000 intents: it may have
        fewer items than requested and still have a `next`.
        """
        return await self._ask(
            call(
                "GET",
                ("intents",),
                Page[IntentLineAnswer],
                query={
                    "status": status,
                    "submissionTarget": submission_target,
                    "limit": limit,
                    "after": after,
                },
            )
        )

    async def submit_intents(self, body: IntentBatchBody | Mapping[str, Any]) -> IntentBatchAnswer:
        """Submit up to 1,000 messages in one commit, each with its own answer."""
        return await self._ask(
            call(
                "POST",
                (
                    "intents",
                    "batch",
                ),
                IntentBatchAnswer,
                body=body,
            )
        )

    async def get_callback_secret(self) -> CallbackSecretAnswer:
        """Get the secret that signs the workspace's callbacks."""
        return await self._ask(
            call(
                "GET",
                (
                    "callbacks",
                    "secret",
                ),
                CallbackSecretAnswer,
            )
        )

    async def get_intent(self, intent_id: str) -> IntentAnswer:
        """Get an intent's status and attempts."""
        return await self._ask(
            call(
                "GET",
                (
                    "intents",
                    intent_id,
                ),
                IntentAnswer,
            )
        )

    async def resubmit_intent(self, intent_id: str) -> IntentAnswer:
        """Send an exhausted or rejected intent after all, as a new, linked intent.

        The ended intent is not changed. The new one has the same target and payload, and the ID
        of the first with `~2`, `~3` and so on. An intent is resubmitted once: repeating this
        returns the same new intent.
        """
        return await self._ask(
            call(
                "POST",
                (
                    "intents",
                    intent_id,
                    "resubmit",
                ),
                IntentAnswer,
            )
        )

    async def emit_event(self, body: EmissionDocument | Mapping[str, Any]) -> EventAnswer:
        """Record a domain event, which starts the workflows for its trigger."""
        return await self._ask(call("POST", ("events",), EventAnswer, body=body))

    async def list_events(
        self,
        *,
        status: EventStatus | None = None,
        trigger: str | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page[EventAnswer]:
        """List domain events, newest first."""
        return await self._ask(
            call(
                "GET",
                ("events",),
                Page[EventAnswer],
                query={"status": status, "trigger": trigger, "limit": limit, "after": after},
            )
        )

    async def explain_event(
        self, event_id: str, *, recipient: str | None = None
    ) -> EventExplanation:
        """Explain what happened to an event, for everyone or for one recipient."""
        return await self._ask(
            call(
                "GET",
                (
                    "events",
                    event_id,
                    "explain",
                ),
                EventExplanation,
                query={"recipient": recipient},
            )
        )

    async def get_event(self, event_id: str) -> WholeEvent:
        """Get an event with its routes and messages."""
        return await self._ask(
            call(
                "GET",
                (
                    "events",
                    event_id,
                ),
                WholeEvent,
            )
        )

    async def reroute_event(self, event_id: str, *, idempotency_key: str | None = None) -> Rerouted:
        """Process the failed parts of an event again."""
        return await self._ask(
            call(
                "POST",
                (
                    "events",
                    event_id,
                    "reroute",
                ),
                Rerouted,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get_registry(self) -> RegistryAnswer:
        """List the contracts in force, with the state of their targets."""
        return await self._ask(call("GET", ("registry",), RegistryAnswer))

    async def replace_registry(
        self,
        body: Mapping[str, Any],
        *,
        accept_problems: bool | None = None,
        idempotency_key: str | None = None,
    ) -> RegistryAnswer:
        """Replace the registry; on mistakes, nothing changes and all are listed."""
        return await self._ask(
            call(
                "PUT",
                ("registry",),
                RegistryAnswer,
                query={"acceptProblems": accept_problems},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_suppressions(
        self, *, limit: int | None = None, after: str | None = None
    ) -> Page[SuppressionAnswer]:
        """List opt-outs."""
        return await self._ask(
            call(
                "GET",
                ("suppressions",),
                Page[SuppressionAnswer],
                query={"limit": limit, "after": after},
            )
        )

    async def suppress(
        self, body: SuppressionsBody | Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> SuppressionsDone:
        """Opt addresses out of a channel or topic; pending messages to them are skipped."""
        return await self._ask(
            call(
                "POST",
                ("suppressions",),
                SuppressionsDone,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def unsuppress(
        self,
        body: UnsuppressBody | Mapping[str, Any] | None = None,
        *,
        channel: Channel | None = None,
        address: str | None = None,
        topic: str | None = None,
        idempotency_key: str | None = None,
    ) -> SuppressionsDone:
        """Remove opt-outs, given in the body, or one in the query."""
        return await self._ask(
            call(
                "DELETE",
                ("suppressions",),
                SuppressionsDone,
                query={"channel": channel, "address": address, "topic": topic},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_keys(
        self, *, limit: int | None = None, after: str | None = None
    ) -> Page[KeyAnswer]:
        """List API keys, including revoked ones; their secrets are not shown."""
        return await self._ask(
            call("GET", ("keys",), Page[KeyAnswer], query={"limit": limit, "after": after})
        )

    async def create_key(
        self, body: KeyBody | Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> NewKey:
        """Create an API key; its secret is only shown in this response."""
        return await self._ask(
            call("POST", ("keys",), NewKey, body=body, keyed=True, idempotency_key=idempotency_key)
        )

    async def revoke_key(self, key_id: str, *, idempotency_key: str | None = None) -> RevokedKey:
        """Revoke an API key permanently."""
        return await self._ask(
            call(
                "DELETE",
                (
                    "keys",
                    key_id,
                ),
                RevokedKey,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_audit(
        self,
        *,
        campaign_id: str | None = None,
        run_id: str | None = None,
        newest_first: bool | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page[AuditAnswer]:
        """List the audit trail of the workspace, a campaign or a run."""
        return await self._ask(
            call(
                "GET",
                ("audit",),
                Page[AuditAnswer],
                query={
                    "campaignId": campaign_id,
                    "runId": run_id,
                    "newestFirst": newest_first,
                    "limit": limit,
                    "after": after,
                },
            )
        )

    async def list_artifacts(
        self, campaign_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Page[ArtifactAnswer]:
        """List the artifacts that a campaign's phases wrote."""
        return await self._ask(
            call(
                "GET",
                (
                    "campaigns",
                    campaign_id,
                    "artifacts",
                ),
                Page[ArtifactAnswer],
                query={"limit": limit, "after": after},
            )
        )

    async def get_artifact(self, artifact_id: str) -> ArtifactAnswer:
        """Get an artifact's size and hash."""
        return await self._ask(
            call(
                "GET",
                (
                    "artifacts",
                    artifact_id,
                ),
                ArtifactAnswer,
            )
        )

    async def download_artifact(self, artifact_id: str) -> bytes:
        """Download an artifact."""
        return await self._ask(
            call(
                "GET",
                (
                    "artifacts",
                    artifact_id,
                    "content",
                ),
                bytes,
            )
        )

    async def list_dead_letters(
        self, *, waiting: bool | None = None, limit: int | None = None, after: str | None = None
    ) -> Page[LetterAnswer]:
        """List run events that could not be delivered to a sink, oldest first."""
        return await self._ask(
            call(
                "GET",
                (
                    "bus",
                    "dead-letters",
                ),
                Page[LetterAnswer],
                query={"waiting": waiting, "limit": limit, "after": after},
            )
        )

    async def redrive_dead_letters(self, *, idempotency_key: str | None = None) -> AllRedriven:
        """Redrive all dead letters."""
        return await self._ask(
            call(
                "POST",
                (
                    "bus",
                    "dead-letters",
                    "redrive",
                ),
                AllRedriven,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def redrive_dead_letter(
        self, letter_id: str, *, idempotency_key: str | None = None
    ) -> Redriven:
        """Redrive one dead letter."""
        return await self._ask(
            call(
                "POST",
                (
                    "bus",
                    "dead-letters",
                    letter_id,
                    "redrive",
                ),
                Redriven,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_alerts(
        self, *, standing: bool | None = None, limit: int | None = None, after: str | None = None
    ) -> Page[AlertAnswer]:
        """Alerts of the workspace, newest first."""
        return await self._ask(
            call(
                "GET",
                ("alerts",),
                Page[AlertAnswer],
                query={"standing": standing, "limit": limit, "after": after},
            )
        )

    async def get_workflows(self) -> WorkflowsAnswer:
        """Export all rules with their steps as one document."""
        return await self._ask(call("GET", ("workflows",), WorkflowsAnswer))

    async def apply_workflows(
        self,
        body: Mapping[str, Any],
        *,
        prune: bool | None = None,
        dry_run: bool | None = None,
        expected: str | None = None,
        idempotency_key: str | None = None,
    ) -> DiffAnswer:
        """Apply a document of rules in one transaction and return the changes."""
        return await self._ask(
            call(
                "PUT",
                ("workflows",),
                DiffAnswer,
                query={"prune": prune, "dryRun": dry_run, "expected": expected},
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_rules(
        self, *, trigger: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Page[RuleAnswer]:
        """List rules by trigger."""
        return await self._ask(
            call(
                "GET",
                (
                    "workflows",
                    "rules",
                ),
                Page[RuleAnswer],
                query={"trigger": trigger, "limit": limit, "after": after},
            )
        )

    async def put_rule(
        self, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> RulePut:
        """Create or change the rule for a trigger, channel and audience."""
        return await self._ask(
            call(
                "PUT",
                (
                    "workflows",
                    "rules",
                ),
                RulePut,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get_rule(self, rule_id: str) -> RuleWithStepsAnswer:
        """Get a rule with all its steps."""
        return await self._ask(
            call(
                "GET",
                (
                    "workflows",
                    "rules",
                    rule_id,
                ),
                RuleWithStepsAnswer,
            )
        )

    async def replace_rule(
        self, rule_id: str, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> RulePut:
        """Change a rule; its steps stay as they are."""
        return await self._ask(
            call(
                "PUT",
                (
                    "workflows",
                    "rules",
                    rule_id,
                ),
                RulePut,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def delete_rule(self, rule_id: str, *, idempotency_key: str | None = None) -> None:
        """Delete a rule and its steps; messages already sent stay on record."""
        return await self._ask(
            call(
                "DELETE",
                (
                    "workflows",
                    "rules",
                    rule_id,
                ),
                type(None),
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_steps(
        self, *, rule_id: str | None = None, limit: int | None = None, after: str | None = None
    ) -> Page[StepAnswer]:
        """List workflow steps of one rule in order, or of all rules, oldest first."""
        return await self._ask(
            call(
                "GET",
                (
                    "workflows",
                    "steps",
                ),
                Page[StepAnswer],
                query={"ruleId": rule_id, "limit": limit, "after": after},
            )
        )

    async def create_step(
        self, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> StepPut:
        """Add a workflow step to a rule, even if one with the same order exists."""
        return await self._ask(
            call(
                "POST",
                (
                    "workflows",
                    "steps",
                ),
                StepPut,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def put_step(
        self, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> StepPut:
        """Create or change the workflow step of a rule and order."""
        return await self._ask(
            call(
                "PUT",
                (
                    "workflows",
                    "steps",
                ),
                StepPut,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get_step(self, step_id: str) -> StepAnswer:
        """Get a workflow step."""
        return await self._ask(
            call(
                "GET",
                (
                    "workflows",
                    "steps",
                    step_id,
                ),
                StepAnswer,
            )
        )

    async def replace_step(
        self, step_id: str, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> StepPut:
        """Change a workflow step; it stays with its rule."""
        return await self._ask(
            call(
                "PUT",
                (
                    "workflows",
                    "steps",
                    step_id,
                ),
                StepPut,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def delete_step(self, step_id: str, *, idempotency_key: str | None = None) -> None:
        """Delete a workflow step; messages already sent stay on record."""
        return await self._ask(
            call(
                "DELETE",
                (
                    "workflows",
                    "steps",
                    step_id,
                ),
                type(None),
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get_workflow_policy(self) -> PolicyAnswer:
        """Get the sending policy of the workspace."""
        return await self._ask(
            call(
                "GET",
                (
                    "workflows",
                    "policy",
                ),
                PolicyAnswer,
            )
        )

    async def replace_workflow_policy(
        self, body: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> PolicyPut:
        """Replace the sending policy; on mistakes, nothing changes and all are listed."""
        return await self._ask(
            call(
                "PUT",
                (
                    "workflows",
                    "policy",
                ),
                PolicyPut,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def rehearse_event(self, body: RehearsalBody | Mapping[str, Any]) -> RehearsalAnswer:
        """Show what an event would do: decisions, recipients and messages; nothing is stored."""
        return await self._ask(
            call(
                "POST",
                (
                    "workflows",
                    "dry-run",
                ),
                RehearsalAnswer,
                body=body,
            )
        )

    async def list_targets(self) -> TargetsAnswer:
        """List the submission targets with their settings and state."""
        return await self._ask(call("GET", ("targets",), TargetsAnswer))

    async def pause_target(
        self, submission_target: str, *, idempotency_key: str | None = None
    ) -> TargetControlled:
        """Pause a target; waiting messages keep their attempts."""
        return await self._ask(
            call(
                "POST",
                (
                    "targets",
                    submission_target,
                    "pause",
                ),
                TargetControlled,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def resume_target(
        self, submission_target: str, *, idempotency_key: str | None = None
    ) -> TargetControlled:
        """Resume a target."""
        return await self._ask(
            call(
                "POST",
                (
                    "targets",
                    submission_target,
                    "resume",
                ),
                TargetControlled,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def reset_target(
        self, submission_target: str, *, idempotency_key: str | None = None
    ) -> TargetControlled:
        """Reset a target: allow calls now and forget its failures."""
        return await self._ask(
            call(
                "POST",
                (
                    "targets",
                    submission_target,
                    "reset",
                ),
                TargetControlled,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def count_trouble(self) -> TroubleAnswer:
        """Count doubts, alerts, dead letters and bypasses of the workspace."""
        return await self._ask(call("GET", ("trouble",), TroubleAnswer))

    async def list_bypasses(
        self, *, limit: int | None = None, after: str | None = None
    ) -> Page[BypassAnswer]:
        """List phase state changes made without their lifecycle event, newest first."""
        return await self._ask(
            call("GET", ("bypasses",), Page[BypassAnswer], query={"limit": limit, "after": after})
        )

    async def list_workers(
        self, *, limit: int | None = None, after: str | None = None
    ) -> Page[WorkerAnswer]:
        """List servers and workers: who is alive, and what each holds."""
        return await self._ask(
            call("GET", ("workers",), Page[WorkerAnswer], query={"limit": limit, "after": after})
        )

    async def repoint_run(
        self, run_id: str, *, idempotency_key: str | None = None
    ) -> RepointedAnswer:
        """Move what no provider can have to its target's current address in the registry.

        What was attempted stays where it was: the provider there may have it. Jobs that are
        with a worker stay for now; call again when they are back.
        """
        return await self._ask(
            call(
                "POST",
                (
                    "runs",
                    run_id,
                    "repoint",
                ),
                RepointedAnswer,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def list_receipts(
        self,
        *,
        submission_target: str | None = None,
        matched: bool | None = None,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page[ReceiptAnswer]:
        """List receipts, newest first."""
        return await self._ask(
            call(
                "GET",
                ("receipts",),
                Page[ReceiptAnswer],
                query={
                    "submissionTarget": submission_target,
                    "matched": matched,
                    "limit": limit,
                    "after": after,
                },
            )
        )

    async def match_receipt(
        self,
        receipt_id: str,
        body: MatchBody | Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> Matched:
        """Match a receipt with an item by hand."""
        return await self._ask(
            call(
                "POST",
                (
                    "receipts",
                    receipt_id,
                    "match",
                ),
                Matched,
                body=body,
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def get_person(
        self, address: str, *, limit: int | None = None, after: str | None = None
    ) -> PersonAnswer:
        """Everything known about one email address, phone number, push token or recipient ID."""
        return await self._ask(
            call(
                "GET",
                (
                    "people",
                    address,
                ),
                PersonAnswer,
                query={"limit": limit, "after": after},
            )
        )

    async def erase_person(
        self, address: str, *, dry_run: bool | None = None, idempotency_key: str | None = None
    ) -> ErasureAnswer:
        """Destroy what identifies a person; opt-outs stay as salted hashes, proofs stay valid."""
        return await self._ask(
            call(
                "POST",
                (
                    "people",
                    address,
                    "erase",
                ),
                ErasureAnswer,
                query={"dryRun": dry_run},
                keyed=True,
                idempotency_key=idempotency_key,
            )
        )

    async def search(self, *, q: str) -> SearchAnswer:
        """Find people, campaigns, runs, items, events and intents by address, ID or name."""
        return await self._ask(call("GET", ("search",), SearchAnswer, query={"q": q}))
