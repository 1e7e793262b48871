"""How submission targets are executed, in the operator's settings: for all and per workspace."""

from typing import Annotated, assert_never

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, field_validator

from outrider.domain.addresses import ascii_domain
from outrider.domain.opt_out_answers import ENGLISH, STOP_ANSWERS, default_answer
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.references import names_a_secret
from outrider.domain.sending_hours import zone_named
from outrider.domain.workspaces import (
    DEFAULT_WORKSPACE_NAME,
    SHARED_WITH_PATTERN,
    WORKSPACE_PATTERN,
    WorkspaceName,
)
from outrider.limits.receipts import ANSWER_MAX_CHARACTERS, DEFAULT_RATE_LIMITS, RateLimits
from outrider.plugins import only_a_reference

SecretReference = Annotated[str, AfterValidator(only_a_reference)]
"""With the schemes that installed distributions register, too."""

WorkspaceKey = Annotated[str, Field(pattern=rf"^({WORKSPACE_PATTERN})$")]
"""TENANT/PROJECT/ENVIRONMENT."""
SharedWith = Annotated[str, Field(pattern=rf"^({SHARED_WITH_PATTERN})$")]
"""A workspace, all of a tenant as in TENANT/*, or all workspaces: *."""


def _without_secrets(options: dict[str, str]) -> dict[str, str]:
    secrets = sorted(name for name in options if names_a_secret(name))
    if secrets:
        raise ValueError(f"{', '.join(secrets)} belongs in credentials, as a reference")
    return options


Options = Annotated[dict[str, str], AfterValidator(_without_secrets)]


def _known_zone(name: str) -> str:
    if zone_named(name) is None:
        raise ValueError("is not a time zone; use one such as Europe/Amsterdam")
    return name


WarmUpMessages = Annotated[int, Field(ge=1, le=1_000_000_000)]


def _sender_domain(name: str) -> str:
    known = ascii_domain(name.lower())
    if known is None or "@" in name:
        raise ValueError("is not a mail domain; use one such as news.example.test")
    return known


SenderDomain = Annotated[str, AfterValidator(_sender_domain)]


class WorkspaceTarget(BaseModel):
    """What differs for one workspace: `[targets."T".workspaces."TENANT/PROJECT/ENVIRONMENT"]`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    options: Options = Field(default_factory=dict)
    """In addition to the target's own, or instead of them."""
    credentials: dict[str, SecretReference] = Field(default_factory=dict)
    """Instead of the target's own."""


AnswerText = Annotated[str, Field(min_length=1, max_length=ANSWER_MAX_CHARACTERS)]


class DomainSettings(BaseModel):
    """The limits of a recipient domain or a mailbox provider: `[targets."T".domains."D"]`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    rate_per_second: float | None = Field(default=None, gt=0, le=1_000_000)
    """Messages per second, of all workers together."""
    connections: int | None = Field(default=None, ge=1, le=1_000)
    """Calls at the same time, of all workers together."""
    warm_up: Annotated[list[WarmUpMessages], Field(min_length=1, max_length=366)] | None = None
    """The most messages to it on each of its first days, within the target's own plan."""


class OptOutAnswers(BaseModel):
    """The answers to people who reply STOP or HELP: `[targets."T".answers]`. `true` is a default
    text in the language of their word, `false` leaves them without an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    stop: StrictBool | AnswerText = True
    """The answer to STOP."""
    help: StrictBool | AnswerText = True
    """The answer to HELP."""
    sender: AnswerText | None = None
    """The name that default texts begin with."""
    language: str = ENGLISH
    """Of default texts, where the word itself does not show it."""
    provider_answers: bool | None = None
    """Whether the provider answers itself; defaults to what is usual for its gateway family."""

    @field_validator("language")
    @classmethod
    def _known_language(cls, language: str) -> str:
        if language not in STOP_ANSWERS:
            raise ValueError(f"should be one of {', '.join(sorted(STOP_ANSWERS))}")
        return language

    def text(self, word: OptOutWord, written: str, *, family_answers: bool = False) -> str | None:
        """The answer to that reply; None if there is none, or if the provider gives it."""
        if family_answers if self.provider_answers is None else self.provider_answers:
            return None
        match word:
            case OptOutWord.STOP:
                given = self.stop
            case OptOutWord.HELP:
                given = self.help
            case OptOutWord.START:
                return None
            case _:
                assert_never(word)
        if isinstance(given, str) or not given:
            return given or None
        name = f"{self.sender}: " if self.sender else ""
        return name + default_answer(word, written, self.language)


class TargetSettings(BaseModel):
    """How a submission target is executed. None of it is a contract term, so none is registered.

    In `outrider.toml`: `[targets."sms.realtime"]`. Credentials are references, never values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    timeout_seconds: float | None = Field(default=None, gt=0, le=300)
    """How long one call may take; defaults to the gateway family's."""
    concurrency: int | None = Field(default=None, ge=1, le=1_000)
    """How many calls each process may have open at once."""
    connections: int | None = Field(default=None, ge=1, le=100_000)
    """How many calls all processes together may have open at once."""
    rate_per_second: float | None = Field(default=None, gt=0, le=1_000_000)
    """How many messages per second may be sent, by all workers together."""
    burst: int | None = Field(default=None, ge=1, le=1_000_000)
    """How many may be sent at once after a rest."""
    retry_first_seconds: float | None = Field(default=None, gt=0, le=86_400)
    """The delay before the first retry. Without this and the next two, retries follow the default
    of the target's gateway type."""
    retry_factor: float | None = Field(default=None, ge=1, le=10)
    """By how much each delay is longer than the one before."""
    retry_cap_seconds: float | None = Field(default=None, gt=0, le=86_400)
    """The longest delay."""
    breaker_failures: int = Field(default=20, ge=1, le=100_000)
    """After so many failures in a row, the target is not called for a while."""
    breaker_seconds: float = Field(default=15.0, gt=0, le=3_600)
    """How long that is."""
    allowed_senders: list[SenderDomain] = Field(default_factory=list)
    """Mail domains besides that of its `from` that a campaign may name in a `from` of its own."""
    fallback: str | None = None
    """Another target of the same channel, for messages that this one provably did not accept."""
    fallback_when_down: bool = False
    """Whether items that were never attempted go to the fallback at once while it is down."""
    warm_up: Annotated[list[WarmUpMessages], Field(min_length=1, max_length=366)] | None = None
    """The most messages on each of its first days; after the last of them there is no limit."""
    warm_up_zone: Annotated[str, AfterValidator(_known_zone)] = "UTC"
    """Where these days begin."""
    shape_domains: bool = False
    """Treat each recipient domain by itself: one that defers does not hold up the others."""
    domain_rate_per_second: float | None = Field(default=None, gt=0, le=1_000_000)
    """Messages per second to each domain without its own limits; it turns `shape_domains` on."""
    domain_connections: int | None = Field(default=None, ge=1, le=1_000)
    """Calls at the same time to each of these domains; it turns `shape_domains` on."""
    domain_warm_up: Annotated[list[WarmUpMessages], Field(min_length=1, max_length=366)] | None = (
        None
    )
    """The most messages to each of these domains on each of its first days; it turns
    `shape_domains` on."""
    domains: dict[str, DomainSettings] = Field(default_factory=dict)
    """Recipient domains and mailbox providers with their own limits; turns `shape_domains` on."""
    remembers_references: str | None = None
    """How long its provider remembers a reference: never, in_flight, for_good, or a duration."""
    bounce_rate_alert: float = Field(default=DEFAULT_RATE_LIMITS.bounced, ge=0, le=1)
    """The share of bounces that raises an alert."""
    complaint_rate_alert: float = Field(default=DEFAULT_RATE_LIMITS.complained, ge=0, le=1)
    """The share of complaints that raises an alert."""
    answers: OptOutAnswers = OptOutAnswers()
    """What people who reply STOP or HELP are answered."""
    look_up_url: str | None = Field(default=None, pattern=r"^https?://")
    """Where the provider's record of received messages can be asked by reference; only for families
    that any server may speak."""
    look_up_delay_seconds: float | None = Field(default=None, ge=0, le=86_400)
    """How far behind the provider's records may be: "absent" proves nothing before that."""
    look_up_retention_seconds: float | None = Field(default=None, gt=0, le=366 * 86_400)
    """For how long the provider's records go back."""
    options: Options = Field(default_factory=dict)
    """Of its gateway family; see docs/reference/gateways.md."""
    credentials: dict[str, SecretReference] = Field(default_factory=dict)
    """For the default workspace, and those that `shared_with` names."""
    shared_with: list[SharedWith] = Field(default_factory=list)
    """Workspaces that may use the credentials above."""
    workspaces: dict[WorkspaceKey, WorkspaceTarget] = Field(default_factory=dict)
    """What differs for one workspace."""

    def is_shared_with(self, workspace: WorkspaceName) -> bool:
        if not self.credentials or workspace == DEFAULT_WORKSPACE_NAME:
            return True
        return workspace.is_among(self.shared_with)

    def owner_of(self, credential: str, workspace: WorkspaceName) -> WorkspaceName | None:
        """The workspace that owns the secret used here; None if it may not use it."""
        own = self.workspaces.get(str(workspace))
        if own is not None and credential in own.credentials:
            return workspace
        return DEFAULT_WORKSPACE_NAME if self.is_shared_with(workspace) else None

    @property
    def rate_limits(self) -> RateLimits:
        return RateLimits(self.bounce_rate_alert, self.complaint_rate_alert)

    def shares_reports(self, workspace: WorkspaceName) -> bool:
        """Whether the provider reports on this workspace's messages together with others': it
        cannot tell them apart, because they use one credential."""
        own = self.workspaces.get(str(workspace))
        if not self.shared_with or (own is not None and own.credentials):
            return False
        return self.is_shared_with(workspace)

    def of(self, workspace: WorkspaceName) -> "TargetSettings":
        """The target as set up for this workspace: its own options and credentials first."""
        own = self.workspaces.get(str(workspace))
        if own is None:
            return self
        options, credentials = self.options | own.options, self.credentials | own.credentials
        return self.model_copy(update={"options": options, "credentials": credentials})

    @field_validator("remembers_references")
    @classmethod
    def _known_memory(cls, text: str | None) -> str | None:
        return None if text is None else str(ReferenceMemory.parse(text))

    @property
    def reference_memory(self) -> ReferenceMemory | None:
        """What the target declares; None leaves it to its gateway family."""
        text = self.remembers_references
        return None if text is None else ReferenceMemory.parse(text)
