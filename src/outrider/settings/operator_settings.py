"""Everything that an operator sets, by name: `OUTRIDER_*` variables or `outrider.toml`."""

import json
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from outrider.domain.bus_queues import HISTORY
from outrider.domain.history_urls import history_url
from outrider.domain.public_urls import public_url
from outrider.domain.states import Channel
from outrider.engines.table import EngineSettings, known_engine
from outrider.limits.access import ROOT_KEY_MIN_CHARACTERS
from outrider.limits.gateways import MAIL_FROM_DEFAULT
from outrider.limits.kernel import Limits
from outrider.plugins import known_schemes
from outrider.settings.admission import AdmissionTable
from outrider.settings.retention import RetentionSettings
from outrider.settings.sinks import Sinks, SinkSettings
from outrider.settings.sources import (
    FILE,
    ContractNames,
    UnknownVariables,
    ValueFiles,
    kept_in_files,
)
from outrider.settings.state_store import StateStoreSettings
from outrider.settings.targets import SecretReference, TargetSettings

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

EngineName = Annotated[str, AfterValidator(known_engine)]


def _known_history(url: str) -> str:
    history_url(url, known_schemes())
    return url


HistoryAddress = Annotated[str, AfterValidator(_known_history)]
"""snowflake://, postgresql:// or duckdb://, without a secret in it."""

PublicUrl = Annotated[str, AfterValidator(public_url)]
"""https, or http on this machine; no trailing slash."""


class Settings(EngineSettings, BaseSettings):
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
