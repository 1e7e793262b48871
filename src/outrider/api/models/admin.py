"""Health, registry, keys, suppressions, audit and artifacts on the wire."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from outrider.api.models.common import Answer, Line, Success, Text, TopicName
from outrider.documents import Document
from outrider.domain.contracts import PolicyName, contract_document
from outrider.domain.keys import KeyScope
from outrider.domain.states import Channel
from outrider.domain.submission import Contract
from outrider.domain.suppressions import Suppression, SuppressionSource
from outrider.domain.targets import Door, DoorState
from outrider.kernel.transactions.artifacts import ArtifactRecord
from outrider.kernel.transactions.audit_trail import AuditRecord
from outrider.kernel.transactions.keys import ApiKeyRecord, in_order
from outrider.kernel.transactions.targets import Overview, TargetPause
from outrider.limits.campaigns import NAME_MAX_CHARACTERS

ADDRESSES_MAX = 1_000
ADDRESS_MAX_CHARACTERS = 4_096
SUPPRESSION_EVIDENCE_MAX_CHARACTERS = 1_000


class Health(Answer):
    status: Literal["alive", "ready"]
    degraded: list[str] = Field(
        default=[],
        description="Unavailable parts that the server can work without, one sentence each.",
    )


class TargetStanding(Answer):
    """A target's current state; null if it has no rate and was never in trouble."""

    door: Literal["open", "throttled", "down", "paused"] = Field(
        description="Whether calls are allowed: the provider asked to retry later, it cannot be "
        "reached, or somebody paused it."
    )
    since: datetime | None = Field(description="When the door was closed.")
    reason: str | None = Field(description="The provider's last error, or what failed.")
    slots: int | None = Field(
        description="How many concurrent calls it accepts, if that is known to be limited."
    )
    breaker: Literal["closed", "open", "probing"]
    failures: int
    resume_at: datetime | None
    probe_at: datetime | None
    paused_by: str | None = None

    @classmethod
    def of(cls, door: Door | None, paused: TargetPause | None = None) -> "TargetStanding | None":
        if door is None and paused is None:
            return None
        known = door or Door(0.0, datetime.now(UTC))
        breaker: Literal["closed", "open", "probing"] = "closed"
        if not known.is_open:
            breaker = "open" if known.probe_until is None else "probing"
        is_down = known.state is DoorState.DOWN
        return cls(
            door="paused" if paused is not None else known.state.value,
            since=paused.paused_at if paused is not None else known.since,
            reason=known.reason,
            slots=known.slots,
            breaker=breaker,
            failures=known.failures,
            resume_at=None if is_down else known.opens_at,
            probe_at=known.opens_at if is_down else None,
            paused_by=None if paused is None else paused.paused_by,
        )


def standing_of(overview: Overview, contract: Contract, workspace_id: str) -> TargetStanding | None:
    paused = overview.paused.get(contract.submission_target)
    return TargetStanding.of(overview.door(contract, workspace_id), paused)


class TargetAnswer(Answer):
    """A registered contract, and its target's current state."""

    submission_target: str
    gateway_type: str
    gateway_url: str | None = Field(description="Null for other workspaces than the default one.")
    mode: str
    policy: PolicyName
    max_acceptance_seconds: float | None = None
    max_attempts: int | None = None
    terminal_outcomes: list[str]
    state: TargetStanding | None

    @classmethod
    def of(cls, contract: Contract, standing: TargetStanding | None) -> "TargetAnswer":
        return cls.model_validate({**contract_document(contract), "state": standing})


class RegistryWarning(Answer):
    path: str
    message: str


class RegistryAnswer(Answer):
    targets: list[TargetAnswer]
    warnings: list[RegistryWarning] = Field(
        default=[],
        description="After replacing the registry: what workflows will find wrong with it.",
    )


class KeyBody(Document):
    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "ci", "scopes": ["operate"]}]}
    )

    name: Annotated[Line, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)]
    scopes: Annotated[
        list[Annotated[KeyScope, Field(strict=False)]],
        Field(min_length=1, max_length=len(KeyScope)),
    ]


class KeyAnswer(Answer):
    id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    revoked_at: datetime | None

    @classmethod
    def of(cls, key: ApiKeyRecord) -> "KeyAnswer":
        return cls(
            id=key.id,
            name=key.name,
            scopes=in_order(key.scopes),
            created_at=key.created_at,
            revoked_at=key.revoked_at,
        )


class NewKey(KeyAnswer, Success):
    key: str | None = Field(description="Shown only once: null when the request is repeated.")


class RevokedKey(KeyAnswer, Success):
    pass


Address = Annotated[Line, Field(min_length=1, max_length=ADDRESS_MAX_CHARACTERS)]
Addresses = Annotated[list[Address], Field(min_length=1, max_length=ADDRESSES_MAX)]
ChannelName = Annotated[Channel, Field(strict=False)]


class SuppressionsBody(Document):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"channel": "email", "addresses": ["a@example.test"], "reason": "STOP"}]
        }
    )

    channel: ChannelName
    addresses: Addresses
    reason: Annotated[Line, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)] = "opted_out"
    topic: TopicName | None = Field(
        default=None, description="Only this topic; without one, everything on the channel."
    )
    source: Annotated[SuppressionSource, Field(strict=False)] = Field(
        default=SuppressionSource.API,
        description="How it is known. Bounce, complaint and stop include transactional messages.",
    )
    evidence: Annotated[
        Annotated[Text, Field(min_length=1, max_length=SUPPRESSION_EVIDENCE_MAX_CHARACTERS)] | None,
        Field(description="Evidence, for later reference."),
    ] = None
    include_transactional: bool = Field(
        default=False, description="Block transactional messages too."
    )


class UnsuppressBody(Document):
    channel: ChannelName
    addresses: Addresses
    topic: TopicName | None = Field(
        default=None, description="Only this topic; without one, everything they opted out of."
    )


class SuppressionAnswer(Answer):
    channel: Channel
    address: str
    topic: str | None = Field(description="Null means everything on the channel.")
    reason: str
    source: SuppressionSource
    evidence: str | None
    includes_transactional: bool
    created_at: datetime

    @classmethod
    def of(cls, found: Suppression) -> "SuppressionAnswer":
        return cls(**{**found._asdict(), "channel": Channel(found.channel)})


class SuppressionsDone(Success):
    channel: Channel
    addresses: int = Field(description="How many of them this changed.")


class AuditAnswer(Answer):
    id: str
    created_at: datetime
    actor: str
    event: str
    run_id: str | None
    job_id: str | None
    outbox_id: str | None
    detail: dict[str, Any]

    @classmethod
    def of(cls, record: AuditRecord, detail: dict[str, Any]) -> "AuditAnswer":
        return cls(
            id=record.id,
            created_at=record.created_at,
            actor=record.actor,
            event=record.event,
            run_id=record.run_id,
            job_id=record.job_id,
            outbox_id=record.outbox_id,
            detail=detail,
        )


class ArtifactAnswer(Answer):
    id: str
    run_id: str
    name: str
    media_type: str
    sha256: str
    size_bytes: int
    created_at: datetime

    @classmethod
    def of(cls, artifact: ArtifactRecord) -> "ArtifactAnswer":
        return cls(
            id=artifact.id,
            run_id=artifact.run_id,
            name=artifact.name,
            media_type=artifact.media_type,
            sha256=artifact.sha256,
            size_bytes=artifact.size_bytes,
            created_at=artifact.created_at,
        )
