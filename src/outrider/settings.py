"""Typed settings and every limit, by name. Flags > environment > `outrider.toml` > defaults.

`Limits` is plain data that the kernel is handed; `Settings` is how an operator sets things.
"""

import json
import re
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from outrider.domain.admission import AdmissionRule, OverloadPolicy
from outrider.domain.bus_queues import HISTORY
from outrider.domain.history_urls import history_url
from outrider.domain.public_urls import is_private_way, public_url, server_url
from outrider.domain.run_events import RunEventType
from outrider.domain.states import Channel
from outrider.domain.write_budget import (
    DEFAULT_BUDGET_MS,
    DEFAULT_FAIL_OPEN,
    DEFAULT_NEVER_FAIL_OPEN,
    WriteBudget,
)
from outrider.engines.table import known_engine
from outrider.limits.access import ROOT_KEY_MIN_CHARACTERS
from outrider.limits.engines import (
    CONDUCTOR_WINDOW_JOBS,
    CONDUCTOR_WINDOW_JOBS_MAX,
    TEMPORAL_WINDOW_JOBS,
    TEMPORAL_WINDOW_JOBS_MAX,
)
from outrider.limits.gateways import MAIL_FROM_DEFAULT
from outrider.limits.kernel import Limits
from outrider.ports.secrets import known_schemes
from outrider.retention_settings import RetentionSettings
from outrider.setting_sources import (
    FILE,
    ContractNames,
    UnknownVariables,
    ValueFiles,
    kept_in_files,
)
from outrider.sink_settings import Sinks
from outrider.sink_settings import SinkSettings as SinkSettings
from outrider.target_settings import SecretReference
from outrider.target_settings import TargetSettings as TargetSettings

Network = IPv4Network | IPv6Network


def _networks(given: object) -> object:
    """Also accepts lists as written in the environment: 10.0.0.0/8, 192.0.2.1"""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("["):
        return json.loads(given)
    return [each.strip() for each in given.split(",") if each.strip()]


WebOrigin = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$")]
"""Exactly what a browser sends as `Origin`: scheme, host, and port unless it is the default."""

HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
PORT_MAX = 65_535


def _host_and_port(text: str) -> str:
    found = HOST_AND_PORT.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= PORT_MAX:
        raise ValueError("should be HOST:PORT, without a scheme")
    return text


EngineName = Annotated[str, AfterValidator(known_engine)]
TemporalAddress = Annotated[str, AfterValidator(_host_and_port)]

ConductorUrl = Annotated[str, AfterValidator(server_url)]


def _known_history(url: str) -> str:
    history_url(url, known_schemes())
    return url


HistoryAddress = Annotated[str, AfterValidator(_known_history)]
"""snowflake://, postgresql:// or duckdb://, without a secret in it."""

PublicUrl = Annotated[str, AfterValidator(public_url)]
"""https, or http on this machine; no trailing slash."""


class AdmissionSettings(BaseModel):
    """How much a workspace may have in progress, and what happens to a run beyond that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: OverloadPolicy = OverloadPolicy.QUEUE
    """What happens to a run for which there is no room."""
    concurrent_runs: int | None = Field(default=None, ge=1)
    """How many runs a workspace may have in progress."""
    waiting_items: int | None = Field(default=None, ge=1)
    """How many items of a workspace may be waiting."""
    retry_after_seconds: int = Field(default=30, ge=1, le=86_400)
    """What a refused client is asked to wait."""
    delay_seconds: int = Field(default=60, ge=1, le=86_400)
    """How long a delayed run waits."""

    def rule(self) -> AdmissionRule:
        return AdmissionRule(
            self.policy,
            self.concurrent_runs,
            self.waiting_items,
            self.retry_after_seconds,
            self.delay_seconds,
        )


class AdmissionTable(AdmissionSettings):
    """`[admission]` applies to all; `[admission.workspaces."project/environment"]` to one."""

    workspaces: dict[str, AdmissionSettings] = Field(default_factory=dict)
    """What differs for one workspace."""

    def rule_of(self, project: str, environment: str) -> AdmissionRule:
        return self.workspaces.get(f"{project}/{environment}", self).rule()


class StateStoreSettings(BaseModel):
    """The write budget of run events, in contract 002's own names."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    write_latency_budget_ms: int = Field(default=DEFAULT_BUDGET_MS, ge=1, le=600_000)
    """How long writing a run event may take."""
    fail_open_for_event_class: list[RunEventType] = Field(
        default_factory=lambda: sorted(DEFAULT_FAIL_OPEN)
    )
    """Events that do not hold up work when the budget is exceeded: they are written later."""
    never_fail_open: list[RunEventType] = Field(
        default_factory=lambda: sorted(DEFAULT_NEVER_FAIL_OPEN)
    )
    """Events that always do."""

    @model_validator(mode="after")
    def _no_event_both_ways(self) -> Self:
        both = set(self.fail_open_for_event_class) & set(self.never_fail_open)
        if both:
            raise ValueError(
                f"{', '.join(sorted(both))} cannot be both fail-open and never fail-open"
            )
        others = set(self.fail_open_for_event_class) - DEFAULT_FAIL_OPEN
        if others:
            raise ValueError(f"only StepStarted may fail open, not {', '.join(sorted(others))}")
        return self

    def budget(self) -> WriteBudget:
        return WriteBudget(
            self.write_latency_budget_ms,
            frozenset(self.fail_open_for_event_class),
            frozenset(self.never_fail_open),
        )


class Settings(BaseSettings):
    """What an operator sets, as OUTRIDER_* variables or in `outrider.toml`."""

    model_config = SettingsConfigDict(
        env_prefix="OUTRIDER_",
        toml_file="outrider.toml",
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    database_url: str = Field(default="sqlite:///outrider.db", repr=False)
    """The database: sqlite:///FILE or postgresql://…"""
    registry: Path = Path("registry.json")
    """The file with the submission targets."""
    log: Literal["console", "json"] = "console"
    """Logs for people, or one JSON object per line."""
    mail_from: str = MAIL_FROM_DEFAULT
    """The sender of emails, unless a target's option `from` is set."""
    public_url: PublicUrl | None = None
    """The URL at which recipients reach this server, for unsubscribe links; https, except on this
    machine."""
    allow_private_gateways: bool = True
    """Whether gateways and sinks may be in private networks."""
    allow_private_callbacks: bool = False
    """Whether callbacks, whose URLs clients of the API choose, may go to private networks; defaults
    to allow_private_gateways where that is set."""
    allow_private_links: bool = False
    """Whether links that a campaign checks may lead to private networks."""
    artifacts: Path | str = Path("outrider-artifacts")
    """Where artifacts are kept: a folder, or the URL of an object store."""
    artifact_days: dict[str, Annotated[int, Field(ge=1, le=36_500)]] = Field(default_factory=dict)
    """How long artifacts are kept, by kind; `*` is for all others."""
    retention: RetentionSettings = Field(default_factory=RetentionSettings)
    """When old runs and messages are retired: never, unless it says so."""
    authorisation: str | None = None
    """`package.module:Class`: who may steer runs, if keys and scopes do not decide that."""
    spool: Path = Path("outrider-spool")
    """A folder for what must survive a crash outside of the database."""
    admission: AdmissionTable = Field(default_factory=AdmissionTable)
    """How much a workspace may have in progress."""
    state_store: StateStoreSettings = Field(default_factory=StateStoreSettings)
    """The write budget of run events."""
    nameservers: list[str] = Field(default_factory=list)
    """The addresses of DNS servers to use instead of the machine's."""
    redis_url: str | None = Field(default=None, repr=False)
    """A Redis that answers repeated idempotency keys without the database."""
    cors_origins: list[WebOrigin] = Field(default_factory=list)
    """Web origins whose pages may call the API."""
    trusted_proxies: Annotated[list[Network], NoDecode, BeforeValidator(_networks)] = Field(
        default_factory=list
    )
    """Proxies in front of the server whose `X-Forwarded-For` is trusted."""
    metrics_without_key: bool = False
    """Whether `/metrics` is open to this machine: only if no local proxy serves outside clients."""
    targets: dict[str, TargetSettings] = Field(default_factory=dict)
    """How each submission target is executed."""
    workflow_targets: dict[Channel, str] = Field(default_factory=dict)
    """The submission target of a workflow's step that names none, by channel."""
    bus: Sinks = Field(default_factory=dict)
    """Who receives run events."""
    history: HistoryAddress | None = None
    """Where run events and snapshots are mirrored for analysis."""
    jobs_in_parallel: int = Field(default=Limits.jobs_in_parallel, ge=1, le=64)
    """How many jobs a worker process works on at once."""
    lease_seconds: float = Field(default=Limits.lease_seconds, ge=0.5, le=3_600)
    """After how long without a sign of life another worker takes over a job."""
    engine: EngineName = "local"
    """Who distributes jobs: local, temporal or conductor."""
    temporal_address: TemporalAddress = "127.0.0.1:7233"
    """HOST:PORT of Temporal's frontend."""
    temporal_namespace: str = Field(default="default", min_length=1, max_length=255)
    """The namespace in Temporal."""
    temporal_task_queue: str = Field(default="outrider", min_length=1, max_length=200)
    """The task queue that this deployment's workers poll."""
    temporal_window_jobs: int = Field(
        default=TEMPORAL_WINDOW_JOBS, ge=1, le=TEMPORAL_WINDOW_JOBS_MAX
    )
    """How many jobs of one run workers may hold at once."""
    temporal_tls: bool = False
    """Whether to connect with TLS."""
    temporal_tls_ca: Path | None = None
    """The certificate authority of Temporal's certificate, as PEM."""
    temporal_tls_certificate: Path | None = None
    """This client's certificate, as PEM."""
    temporal_tls_key: Path | None = None
    """That certificate's private key."""
    temporal_tls_server_name: str | None = None
    """The name in Temporal's certificate, if it is not the host's."""
    temporal_api_key: SecretReference | None = None
    """An API key of Temporal Cloud."""
    temporal_codec_key: SecretReference | None = None
    """The key that encrypts Temporal's payloads."""
    conductor_url: ConductorUrl = "http://127.0.0.1:8080"
    """The URL of Conductor's server."""
    conductor_domain: str = Field(default="outrider", min_length=1, max_length=100)
    """The task domain: only workers with the same one are given this deployment's work."""
    conductor_window_jobs: int = Field(
        default=CONDUCTOR_WINDOW_JOBS, ge=1, le=CONDUCTOR_WINDOW_JOBS_MAX
    )
    """How many jobs of one run workers may hold at once."""
    conductor_token: SecretReference | None = None
    """The access token for Conductor."""
    session_secret: SecretReference | None = None
    """The key that signs console sessions; by default a file in the spool folder."""
    evidence_key: SecretReference | None = None
    """The Ed25519 key that signs evidence, 64 hex digits; by default a file in the spool folder."""
    root_key: str | None = Field(default=None, min_length=ROOT_KEY_MIN_CHARACTERS, repr=False)
    """An API key with all rights in the default workspace, for automation."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file = ContractNames(settings_cls)
        return (
            init_settings,
            env_settings,
            ValueFiles(settings_cls),
            file,
            UnknownVariables(settings_cls, env_settings, file),
        )

    @model_validator(mode="before")
    @classmethod
    def _callbacks_follow_gateways(cls, given: Any) -> Any:
        """If an operator has set it for gateways and not for callbacks."""
        if isinstance(given, dict) and "allow_private_gateways" in given:
            said = given["allow_private_gateways"]
            return {"allow_private_callbacks": said, **given}
        return given

    @model_validator(mode="after")
    def _the_history_has_its_name_alone(self) -> Self:
        if self.history is not None and HISTORY in self.bus:
            raise ValueError(f"a sink cannot be called '{HISTORY}' beside a history")
        return self

    @model_validator(mode="after")
    def _temporal_is_reached_safely(self) -> Self:
        if (self.temporal_tls_certificate is None) != (self.temporal_tls_key is None):
            raise ValueError("temporal_tls_certificate and temporal_tls_key must be set together")
        files = self.temporal_tls_ca or self.temporal_tls_certificate
        if not self.temporal_tls and (files or self.temporal_tls_server_name):
            raise ValueError("temporal_tls_* requires temporal_tls = true")
        if not self.temporal_tls and self.temporal_api_key is not None:
            raise ValueError("temporal_api_key would be sent unencrypted: set temporal_tls = true")
        return self

    @model_validator(mode="after")
    def _conductor_is_reached_safely(self) -> Self:
        if self.conductor_token is not None and not is_private_way(self.conductor_url):
            raise ValueError("conductor_token would be sent unencrypted: use an https URL")
        return self

    def as_environment(self) -> dict[str, str]:
        """The same settings for a child process, whatever files this one was given."""
        document = self.model_dump(mode="json", exclude_none=True)
        document |= {name + FILE: "" for name in kept_in_files(type(self))}
        return {
            f"OUTRIDER_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
            for name, value in document.items()
        }

    def limits(self) -> Limits:
        return Limits(
            jobs_in_parallel=self.jobs_in_parallel,
            lease_seconds=self.lease_seconds,
            heartbeat_seconds=self.lease_seconds / 3,
        )


def setting_names(table: str) -> list[str]:
    """What a table of `outrider.toml` may hold, as it is written there."""
    inside: dict[str, type[BaseModel]] = {
        "targets": TargetSettings,
        "bus": SinkSettings,
        "admission": AdmissionTable,
        "state_store": StateStoreSettings,
    }
    fields = inside[table].model_fields if table in inside else {}
    return [field.alias or name for name, field in fields.items()]
