"""Typed settings and every limit, by name. Flags > environment > `outrider.toml` > defaults.

`Limits` is plain data that the kernel is handed; `Settings` is how an operator sets things.
"""

import json
import os
import re
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from outrider.domain.admission import AdmissionRule, OverloadPolicy
from outrider.domain.public_urls import public_url
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.references import is_reference, names_a_secret
from outrider.domain.run_events import RunEventType
from outrider.domain.setting_names import in_our_names, unknown_variables
from outrider.domain.sink_urls import SinkKind, sink_url
from outrider.domain.states import Channel
from outrider.domain.write_budget import (
    DEFAULT_BUDGET_MS,
    DEFAULT_FAIL_OPEN,
    DEFAULT_NEVER_FAIL_OPEN,
    WriteBudget,
)
from outrider.ports.secrets import known_schemes


def _only_a_reference(text: str) -> str:
    if not is_reference(text) and not is_reference(text, known_schemes()):
        raise ValueError("should be env:NAME or file:PATH, never the secret itself")
    return text


SecretReference = Annotated[str, AfterValidator(_only_a_reference)]
"""With the schemes that installed distributions register, too."""

Network = IPv4Network | IPv6Network


def _networks(given: object) -> object:
    """Also as people write lists in the environment: 10.0.0.0/8, 192.0.2.1"""
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("["):
        return json.loads(given)
    return [each.strip() for each in given.split(",") if each.strip()]


WebOrigin = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$")]
"""Exactly what a browser sends as `Origin`: scheme, host, and port where it is not the usual."""

HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):([0-9]{1,5})")
PORT_MAX = 65_535


def _host_and_port(text: str) -> str:
    found = HOST_AND_PORT.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= PORT_MAX:
        raise ValueError("should be HOST:PORT, without a scheme")
    return text


TemporalAddress = Annotated[str, AfterValidator(_host_and_port)]

PublicUrl = Annotated[str, AfterValidator(public_url)]
"""https, or http on this machine; no slash at its end."""


EVENT_ITEMS_MAX = 10_000


@dataclass(frozen=True)
class Limits:
    """Every loop, batch, queue, lease, payload and wait of the kernel."""

    lease_seconds: float = 30.0
    heartbeat_seconds: float = 10.0
    stale_lock_seconds: float = 300.0
    rescue_interval_seconds: float = 2.0
    clock_look_seconds: float = 5.0
    clock_keep_seconds: float = 30.0
    clock_step_seconds: float = 1.0
    """By more than this a clock does not drift: it was set."""
    clock_skew_seconds: float = 5.0
    clock_ahead_seconds: float = 86_400.0
    """A ledger whose time is further ahead of the database's follows it back."""
    shortage_tell_seconds: float = 10.0
    idle_poll_seconds: float = 1.0
    claim_pause_seconds: float = 0.05
    jobs_in_parallel: int = 4
    lanes_in_parallel: int = 64
    batch_lanes_in_parallel: int = 48
    queue_groups: int = 1_000
    queue_groups_seconds: float = 1.0
    yield_after_seconds: float = 0.5
    permit_seconds: float = 2.0
    permit_look_seconds: float = 0.1
    permit_trust_seconds: float = 0.005
    suspension_poll_seconds: float = 0.01
    expire_seconds: float = 1.0
    expire_items: int = 5_000
    lane_look_seconds: float = 0.1
    opened_ahead_seconds: float = 0.25
    share_seconds: float = 1.0
    door_alert_seconds: float = 30.0
    """A target that turned everybody away for so long is an alert; one that is held, at once."""
    gate_scopes: int = 10_000
    job_max_attempts: int = 5
    job_attempt_minimum_seconds: float = 0.05
    close_group_items: int = 500
    close_group_seconds: float = 0.004
    close_groups_in_parallel: int = 4
    close_patience_seconds: float = 300.0
    close_backoff_seconds: float = 0.2
    store_backoff_seconds: float = 1.0
    reconcile_items: int = 500
    intake_lease_seconds: float = 120.0
    intake_clean_seconds: float = 15.0
    registry_look_seconds: float = 2.0
    stop_sweep_seconds: float = 5.0
    stop_swept_seconds: float = 86_400.0
    intake_wait_seconds: float = 10.0
    intake_poll_seconds: float = 0.1
    resolved_at_once: int = 10_000
    gate_trust_seconds: float = 0.5
    gate_patience_seconds: float = 0.3
    lane_window_items: int = 500
    lane_rounds: int = 50
    enclosing_items: int = 16
    enclosure_wait_seconds: float = 60.0
    page_items: int = 1_000
    campaigns_looked_through: int = 10_000
    trouble_counted: int = 10_000
    certificate_page_items: int = 5_000
    control_attempts: int = 3
    control_backoff_seconds: float = 0.05
    phase_jobs: int = 100_000
    progress_seconds: float = 1.0
    progress_phases: int = 100
    progress_events_kept: int = 20
    replay_events: int = 500
    watcher_events: int = 1_000
    event_poll_seconds: float = 0.25
    bypass_poll_seconds: float = 5.0
    bypass_page: int = 100
    bus_lease_seconds: float = 15.0
    bus_poll_seconds: float = 0.25
    bus_stop_seconds: float = 15.0
    bus_window_events: int = 500
    bus_window_runs: int = 100
    bus_max_attempts: int = 20
    bus_forget_items: int = 5_000
    bus_counted: int = 100_000
    projector_seconds: float = 0.5
    projector_runs: int = 100
    projector_page_events: int = 2_000
    projector_delta_events: int = 20_000
    projector_steps_remembered: int = 100_000
    projector_rest_factor: float = 4.0
    projector_lag_alert_seconds: float = 5.0
    snapshots_kept: int = 3
    housekeeper_restart_seconds: float = 5.0
    spool_seconds: float = 2.0
    spool_entries: int = 1_000
    reconcile_runs_seconds: float = 1.0
    reconcile_runs_page: int = 50
    reconcile_workspaces: int = 1_000
    signals_recorded: int = 10_000
    run_lease_seconds: float = 30.0
    router_poll_seconds: float = 1.0
    router_lease_seconds: float = 10.0
    router_events: int = 250
    router_texts: int = 500
    router_bytes: int = 2 * 1024 * 1024
    router_attempts: int = 5
    event_items: int = EVENT_ITEMS_MAX
    policies_remembered: int = 1_000
    policy_remember_seconds: float = 1.0
    digester_seconds: float = 1.0
    digester_digests: int = 50
    digester_lease_seconds: float = 60.0
    engine_tell_seconds: float = 5.0
    engine_deaf_seconds: float = 5.0
    stalled_look_seconds: float = 0.25
    stalled_after_seconds: float = 0.25
    stalled_recheck_seconds: float = 0.5
    stalled_retell_seconds: float = 5.0
    stalled_page: int = 200
    stalled_most: int = 10_000
    stalled_told_at_once: int = 32
    stalled_asked_per_second: float = 50.0


@dataclass(frozen=True)
class ApiLimits:
    """Every body, wait, stream and stop of the HTTP server."""

    body_max_bytes: int = 1024 * 1024
    form_max_bytes: int = 4_096
    campaign_max_bytes: int = 64 * 1024 * 1024
    upload_max_bytes: int = 2 * 1024 * 1024 * 1024
    bodies_bytes: int = 64 * 1024 * 1024
    """In memory at once, of all workspaces; what is larger than a form counts."""
    bodies_workspace_bytes: int = 32 * 1024 * 1024
    uploads_bytes: int = 8 * 1024 * 1024 * 1024
    """In files at once, of all workspaces."""
    uploads_workspace_bytes: int = 4 * 1024 * 1024 * 1024
    body_wait_seconds: float = 5.0
    json_here_max_bytes: int = 32 * 1024
    """Larger JSON is read in a thread."""
    header_seconds: float = 10.0
    """In which the head of a request has to arrive."""
    body_silence_seconds: float = 30.0
    """For so long nothing of a body that is due may come."""
    arriving_per_address: int = 256
    """Connections of one client whose request has not arrived; the oldest of more is cut."""
    page_default: int = 100
    page_max: int = 1_000
    cursor_max_characters: int = 8_192
    retry_after_seconds: int = 1
    idempotency_wait_seconds: float = 10.0
    idempotency_poll_seconds: float = 0.02
    idempotency_poll_most_seconds: float = 0.5
    streams: int = 1_000
    streams_per_workspace: int = 250
    streams_per_key: int = 100
    reads: int = 4
    """At once, of all workspaces: the store has connections beside these for everything else."""
    reads_per_workspace: int = 2
    reads_waiting_per_workspace: int = 200
    read_patience_seconds: float = 0.3
    """Then the database is asked whether it is there at all."""
    database_silence_seconds: float = 0.5
    """A database that does not answer that for so long is away; both together are below a second"""
    check_seconds: float = 60.0
    """A check of the database that takes longer has failed; SQLite gives up a write well before."""
    redis_silence_seconds: float = 0.5
    stream_ping_seconds: float = 15.0
    stream_send_seconds: float = 20.0
    stream_recheck_seconds: float = 5.0
    stream_campaigns: int = 50
    throughput_buckets: int = 500
    stop_seconds: float = 10.0
    worker_stop_seconds: float = 300.0
    child_restart_seconds: float = 1.0


HANDLES_WANTED = 65_536
"""File handles that a process asks for where it may have more than it was given."""
HANDLES_RESERVED = 256
"""Of these none is for a client's connection: databases, gateways and files need them."""
CONNECTIONS_MIN = 64
READY_FREE_BYTES = 16 * 1024 * 1024
"""With less room on the disk of its database a server is not ready."""

READ_HERE_MAX_BYTES = 256 * 1024
"""A larger document is read in a process of its own, which takes a third of a second to start."""
READINGS = 2
READINGS_IN_THREADS = 2
READINGS_WAITING_MAX = 20
READING_MEMORY_BYTES = 1536 * 1024 * 1024
READING_CPU_SECONDS = 1_800
READING_NICENESS = 10

UPLOAD_PIECE_BYTES = 1024 * 1024
BODY_DRAINED_BYTES = 8 * 1024 * 1024
TURNS_RETRY_SECONDS = 2

BATCH_SIZE_DEFAULT = 500
BATCH_SIZE_MAX = 10_000
IMPORT_WINDOW_ITEMS = 1_000
"""Recipients of one transaction: a large audience takes many, and holds up no other writer."""
AUDIENCE_AT_ONCE_MAX = 20_000
"""To a larger audience even a few recipients are added as to any large one."""
DUPLICATES_FOUND_AT_ONCE = 100_000
CENSUS_ADDRESSES_MAX = 200_000
"""Of so many addresses a process remembers whether one came twice; beyond it asks the database."""
RECIPIENTS_MAX = 10_000_000
ATTRIBUTES_MAX_BYTES = 65_536
RECIPIENT_ID_MAX_CHARACTERS = 200
MESSAGES_MAX = 50
MESSAGES_MAX_BYTES = 2 * 1024 * 1024
"""All bodies of a campaign: they are written in one transaction, which others wait for."""
BODY_MAX_BYTES = 262_144
SUBJECT_MAX_CHARACTERS = 998
NAME_MAX_CHARACTERS = 200
PROBLEMS_SHOWN_MAX = 100
DOCUMENT_MAX_BYTES = 256 * 1024 * 1024

WORKFLOW_RULES_MAX = 1_000
WORKFLOW_STEPS_MAX = 50
WORKFLOW_FILE_MAX_BYTES = 16 * 1024 * 1024
STEP_ORDER_MAX = 1_000_000
CUSTOM_RECIPIENTS_MAX = 100
MOMENT_PATH_MAX_CHARACTERS = 200
DELAY_MAX_SECONDS = 366 * 86_400

SQLITE_BUSY_SECONDS = 30.0
SQLITE_LOOK_SECONDS = 0.1
SQLITE_READERS = 6
"""Threads with a connection each: more than the API may use at once, so that workers read too."""
POSTGRES_POOL_CONNECTIONS = 8
POSTGRES_CONNECT_SECONDS = 10.0
POSTGRES_STATEMENT_SECONDS = 120.0
POSTGRES_IDLE_SECONDS = 5
POSTGRES_LISTENER_CHECK_SECONDS = 30.0
POSTGRES_PING_SECONDS = 5.0

HTTP_CONCURRENCY = 64
HTTP_WINDOW_ITEMS = 500
PROVIDER_CONCURRENCY = 16
CREDENTIAL_REREAD_SECONDS = 60.0
HTTP_TIMEOUT_SECONDS = 10.0
HTTP_ANSWER_MAX_BYTES = 65_536
HTTP_HEADERS_MAX_BYTES = 32_768
MAIL_FROM_DEFAULT = "outrider@localhost"
SMTP_CONNECTIONS = 16
SMTP_POOL_SECONDS = 15.0
"""How long a message waits for one of our own connections to become free."""
SMTP_CONNECT_SECONDS = 15.0
SMTP_GREETING_SECONDS = 60.0
SMTP_HELLO_SECONDS = 60.0
SMTP_MAIL_SECONDS = 300.0
SMTP_RCPT_SECONDS = 300.0
SMTP_DATA_SECONDS = 120.0
SMTP_BLOCK_SECONDS = 180.0
SMTP_END_SECONDS = 600.0
"""RFC 5321, 4.5.3.2. A server that has the whole message may be about to say so: to stop listening
earlier is to doubt what was delivered. Before the first command shorter waits cost nothing."""
SMTP_FAREWELL_SECONDS = 15.0
HELO_LOOKUP_SECONDS = 2.0
SMTP_SUSPECTS_MAX = 5
"""So many refusals in a row that may be about us are about us."""
SMTP_SUSPECTS_REMEMBERED = 10_000
SMTP_IDLE_SECONDS = 5.0
SMTP_MESSAGES_PER_CONNECTION = 500
HTTP_CONNECTIONS = 256
HTTP_CONNECT_SECONDS = 5.0
HTTP_IDLE_SECONDS = 15.0
ERROR_DETAIL_MAX_CHARACTERS = 300
CHECK_SECONDS = 10.0
"""How long the check of one target may take, whatever its own timeout is."""
CHECK_OVERTIME_SECONDS = 1.0
CHECKS_AT_ONCE = 16
GC_NEW_OBJECTS = 50_000
GC_YOUNG_ROUNDS = 10
GC_OLD_ROUNDS = 10
ENCLOSURES_MAX_BYTES = 7 * 1024 * 1024
QUOTE_ITEMS_MAX = 200
QUOTE_TEXT_MAX_CHARACTERS = 300
SANDBOX_BODY_MAX_BYTES = 1_048_576
SANDBOX_MAIL_MAX_BYTES = 16 * 1024 * 1024
SANDBOX_STOP_SECONDS = 1.0

ARTIFACT_MAX_BYTES = 8 * 1024 * 1024 * 1024
ARTIFACT_PIECE_BYTES = 1024 * 1024
ARTIFACT_LEFTOVER_SECONDS = 3_600.0
ARTIFACT_PART_BYTES = 8 * 1024 * 1024
ARTIFACT_PARTS_AT_ONCE = 2
OBJECT_STORE_CONNECT_SECONDS = 5.0
OBJECT_STORE_TIMEOUT_SECONDS = 60.0
OBJECT_STORE_RETRIES = 3
UPLOAD_CHUNK_RECORDS = 500
PHASE_DETAIL_MAX_BYTES = 262_144

ATTRIBUTES_DEPTH_MAX = 32
AUDIENCE_LINE_MAX_CHARACTERS = 1024 * 1024
REGISTRY_MAX_BYTES = 16 * 1024 * 1024
ACCEPTANCE_MAX_SECONDS = 366 * 86_400
ATTEMPTS_MAX = 10_000

SECRET_MAX_BYTES = 65_536
INTENT_ID_MAX_CHARACTERS = 200
SIGNAL_ID_MAX_CHARACTERS = 200
REQUEST_ID_MAX_CHARACTERS = 200
INTENT_PAYLOAD_MAX_BYTES = 262_144
LANES_PER_TARGET = 4
SHARED_COMMIT_ITEMS = 200
EVENT_TEXTS_MAX_BYTES = 32 * 1024 * 1024

POLICY_MAX_BYTES = 65_536
CHECKED_RULES_WINDOW = 500
DRY_RUN_RENDERED_MAX = 10_000
DRY_RUN_WINDOW_ITEMS = 500
DRY_RUN_FAILURES_MAX = 20
DRY_RUN_EXAMPLES_MAX = 10
REHEARSED_COLUMNS_MAX = 20
CREATION_COMPARED_MAX = 50
ROOT_CAUSE_SAMPLE_ITEMS = 1_000
WORKFLOW_ATTEMPTS_MAX = 50
WORKFLOW_WAIT_MAX_SECONDS = 24 * 3_600
WORKFLOW_RETRY_FACTOR_MAX = 10.0
FREQUENCY_MESSAGES_MAX = 100
FREQUENCY_HOURS_MAX = 24 * 366
UNKNOWN_ZONES_REMEMBERED = 1_000
DIGEST_ENTRIES_MAX = 500
EXPLAINED_ITEMS_MAX = 100
REHEARSED_SHOWN_MAX = 100
EMITTED_AT_ONCE = 500
EMITTED_REQUESTS = 16
EVENT_LINE_MAX_BYTES = 1024 * 1024
DIGEST_VARIABLES_MAX_BYTES = 1024 * 1024

RENDER_CHILDREN = 3
"""Render processes of a role; a workspace has one of them at a time."""
RENDER_WINDOW_SECONDS = 4.0
ROUTING_RENDER_SECONDS = 4.0
RENDER_START_SECONDS = 20.0
RENDER_ITEM_CPU_SECONDS = 0.25
"""Fuel ends mere instructions in a fifth of it; the rest is for what a single one may do."""
RENDER_SLOW_SECONDS = 60.0
"""For so long a workspace that killed a render process shares one with others that did."""
RENDER_SLOW_NICENESS = 10
RENDER_GUILTY_MAX = 10_000
PREVIEWS_WAITING_MAX = 50
RENDER_MEMORY_BYTES = 512 * 1024 * 1024
RENDER_FUEL = 200_000
RENDER_DEATHS_PER_WINDOW = 3
RENDER_REQUEST_BYTES = 4 * 1024 * 1024
RENDER_CHECK_HERE_MAX_CHARACTERS = 4_096

IMPORT_PROBLEMS_SHOWN_MAX = 20
DNS_CONCURRENCY = 64
DNS_TIMEOUT_SECONDS = 2.0
DNS_TRIES = 3
DNS_PAUSE_SECONDS = 0.1
DNS_CACHE_DOMAINS = 100_000
DNS_CACHE_SECONDS = 600.0
DNS_DOMAINS_SHOWN_MAX = 50
LINKS_MAX = 5_000
LINKS_PER_JOB = 25
LINK_MAX_CHARACTERS = 2_048
LINK_CONCURRENCY = 16
LINK_CONNECTIONS_PER_HOST = 4
LINK_CONNECT_SECONDS = 5.0
LINK_SECONDS = 20.0
LINK_REDIRECTS_MAX = 5
REPORT_REASONS_SHOWN_MAX = 12
REPORT_NAME_SHOWN_CHARACTERS = 80

IDEMPOTENCY_TTL_SECONDS = 300
IDEMPOTENCY_RUNNING_SECONDS = 8
"""A claim that is not renewed for so long is a dead server's; less than anybody waits for one."""
IDEMPOTENCY_RENEW_SECONDS = 2.0
IDEMPOTENCY_PRUNE_ITEMS = 10
REDIS_CONNECTIONS = 32
REDIS_TIMEOUT_SECONDS = 0.5
"""It only saves a look into the database: no control waits longer than this for it."""
REDIS_REST_SECONDS = 5.0

SNOWFLAKE_CONNECTIONS = 4
SNOWFLAKE_LOGIN_SECONDS = 30
SNOWFLAKE_STATEMENT_SECONDS = 60
SNOWFLAKE_WINDOW_EVENTS = 500
SNOWFLAKE_WINDOW_BYTES = 512 * 1024

SINK_TIMEOUT_SECONDS = 10.0
SINK_REACH_SECONDS = 3.0
SINK_NAME_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
SINKS_MAX = 50
WEBHOOK_CONCURRENCY = 16
WEBHOOK_ANSWER_MAX_BYTES = 16_384
WEBHOOK_SECRET_MIN_BYTES = 24
WEBHOOK_SECRETS_MAX = 4
NATS_CONCURRENCY = 64
NATS_STREAM_KEPT_SECONDS = 7 * 86_400
NATS_DUPLICATES_SECONDS = 7_200
REDIS_STREAM_ENTRIES = 1_000_000

ROOT_KEY_MIN_CHARACTERS = 16
KEYS_REMEMBERED = 1_000
KEY_REMEMBER_SECONDS = 5.0
SESSION_SECONDS = 8 * 3_600
FAILED_AUTH_BURST = 10
FAILED_AUTH_REFILL_SECONDS = 6.0
FAILED_AUTH_CLIENT_BURST = 100
"""Wrong keys of one client over all its keys; `FAILED_AUTH_BURST` is for each of them."""
FAILED_AUTH_CLIENT_REFILL_SECONDS = 0.6
FAILED_AUTH_LOOKUPS = 2
"""Keys of clients over that limit that are looked up at once."""
FORWARDED_HOPS_MAX = 20
FAILED_AUTH_ADDRESSES = 10_000
FAILED_AUTH_ADDRESS_MAX_CHARACTERS = 64

TEMPORAL_HISTORY_EVENTS = 4_000
TEMPORAL_WINDOW_JOBS = 100
TEMPORAL_WINDOW_JOBS_MAX = 500
TEMPORAL_CALLS = 16
TEMPORAL_CONNECT_SECONDS = 10.0
TEMPORAL_STICKY_SECONDS = 10.0
TEMPORAL_STOP_SECONDS = 300.0
TEMPORAL_WORKFLOWS_CACHED = 500


class TargetSettings(BaseModel):
    """How a submission target is executed. None of it is a contract term, so none is registered.

    In `outrider.toml`: `[targets."sms.realtime"]`. Credentials are references, never values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    timeout_seconds: float | None = Field(default=None, gt=0, le=300)
    concurrency: int | None = Field(default=None, ge=1, le=1_000)
    rate_per_second: float | None = Field(default=None, gt=0, le=1_000_000)
    burst: int | None = Field(default=None, ge=1, le=1_000_000)
    retry_first_seconds: float | None = Field(default=None, gt=0, le=86_400)
    """Without any of the three, retries take what is usual for the target's gateway type."""
    retry_factor: float | None = Field(default=None, ge=1, le=10)
    retry_cap_seconds: float | None = Field(default=None, gt=0, le=86_400)
    breaker_failures: int = Field(default=20, ge=1, le=100_000)
    breaker_seconds: float = Field(default=15.0, gt=0, le=3_600)
    fallback: str | None = None
    remembers_references: str | None = None
    """How long its provider knows a reference again: never, in_flight, for_good, or a duration."""
    options: dict[str, str] = Field(default_factory=dict)
    credentials: dict[str, SecretReference] = Field(default_factory=dict)

    @field_validator("remembers_references")
    @classmethod
    def _known_memory(cls, text: str | None) -> str | None:
        return None if text is None else str(ReferenceMemory.parse(text))

    @property
    def reference_memory(self) -> ReferenceMemory | None:
        """What the target declares; None: it leaves that to its gateway family."""
        text = self.remembers_references
        return None if text is None else ReferenceMemory.parse(text)

    @field_validator("options")
    @classmethod
    def _no_secret_among_options(cls, options: dict[str, str]) -> dict[str, str]:
        secrets = sorted(name for name in options if names_a_secret(name))
        if secrets:
            raise ValueError(f"{', '.join(secrets)} belongs in credentials, as a reference")
        return options


class AdmissionSettings(BaseModel):
    """How much a workspace may have under way, and what happens to a run beyond that."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: OverloadPolicy = OverloadPolicy.QUEUE
    concurrent_runs: int | None = Field(default=None, ge=1)
    waiting_items: int | None = Field(default=None, ge=1)
    retry_after_seconds: int = Field(default=30, ge=1, le=86_400)
    delay_seconds: int = Field(default=60, ge=1, le=86_400)

    def rule(self) -> AdmissionRule:
        return AdmissionRule(
            self.policy,
            self.concurrent_runs,
            self.waiting_items,
            self.retry_after_seconds,
            self.delay_seconds,
        )


class AdmissionTable(AdmissionSettings):
    """`[admission]` is everybody's; `[admission.workspaces."project/environment"]` is one's own."""

    workspaces: dict[str, AdmissionSettings] = Field(default_factory=dict)

    def rule_of(self, project: str, environment: str) -> AdmissionRule:
        return self.workspaces.get(f"{project}/{environment}", self).rule()


class StateStoreSettings(BaseModel):
    """The write budget of run events, in contract 002's own names."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )

    write_latency_budget_ms: int = Field(default=DEFAULT_BUDGET_MS, ge=1, le=600_000)
    fail_open_for_event_class: list[RunEventType] = Field(
        default_factory=lambda: sorted(DEFAULT_FAIL_OPEN)
    )
    never_fail_open: list[RunEventType] = Field(
        default_factory=lambda: sorted(DEFAULT_NEVER_FAIL_OPEN)
    )

    @model_validator(mode="after")
    def _no_event_both_ways(self) -> Self:
        both = set(self.fail_open_for_event_class) & set(self.never_fail_open)
        if both:
            raise ValueError(f"{', '.join(sorted(both))} cannot both fail open and never do so")
        others = set(self.fail_open_for_event_class) - DEFAULT_FAIL_OPEN
        if others:
            raise ValueError(f"only StepStarted can fail open, not {', '.join(sorted(others))}")
        return self

    def budget(self) -> WriteBudget:
        return WriteBudget(
            self.write_latency_budget_ms,
            frozenset(self.fail_open_for_event_class),
            frozenset(self.never_fail_open),
        )


class SinkSettings(BaseModel):
    """Who hears of run events. In `outrider.toml`: `[bus.NAME]`.

    `secret` signs for a webhook, is the password or token for NATS, the password for Redis.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    secret: SecretReference | None = None
    timeout_seconds: float = Field(default=SINK_TIMEOUT_SECONDS, gt=0, le=300)
    max_attempts: int | None = Field(default=None, ge=1, le=1_000)

    @field_validator("url")
    @classmethod
    def _known(cls, url: str) -> str:
        sink_url(url)
        return url

    @model_validator(mode="after")
    def _signed(self) -> Self:
        if self.secret is None and sink_url(self.url).kind is SinkKind.WEBHOOK:
            raise ValueError("a webhook needs a `secret` to be signed with, env:NAME or file:PATH")
        return self


def read_sinks(given: object) -> object:
    """OUTRIDER_BUS is a JSON object of sinks, or in short their URLs with commas between them.

    In short, sinks are named after their kinds, and webhooks are signed with OUTRIDER_BUS_SECRET.
    """
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("{"):
        try:
            return json.loads(given)
        except ValueError:
            raise ValueError("is neither a JSON object of sinks nor a list of URLs") from None
    sinks: dict[str, object] = {}
    counts: dict[str, int] = {}
    for url in filter(None, (piece.strip() for piece in given.split(","))):
        kind = sink_url(url).kind
        counts[kind] = counts.get(kind, 0) + 1
        name = kind.value if counts[kind] == 1 else f"{kind.value}-{counts[kind]}"
        signed = {"secret": "env:OUTRIDER_BUS_SECRET"} if kind is SinkKind.WEBHOOK else {}
        sinks[name] = {"url": url, **signed}
    return sinks


SinkName = Annotated[str, Field(pattern=SINK_NAME_PATTERN)]
Sinks = Annotated[
    dict[SinkName, SinkSettings], NoDecode, BeforeValidator(read_sinks), Field(max_length=SINKS_MAX)
]


class ContractNames(TomlConfigSettingsSource):
    """`outrider.toml`, in which a contract's own tables are understood."""

    def __call__(self) -> dict[str, Any]:
        return in_our_names(super().__call__())


class UnknownVariables(PydanticBaseSettingsSource):
    """Gives what is no setting as if it were one, so that it is refused as a table would be."""

    def __init__(
        self, settings_cls: type[BaseSettings], *others: PydanticBaseSettingsSource
    ) -> None:
        super().__init__(settings_cls)
        self._others = others

    def get_field_value(
        self,
        field: FieldInfo,  # noqa: ARG002 - the signature is pydantic's
        field_name: str,
    ) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        given = [source() for source in self._others]
        return dict(unknown_variables(os.environ, self.settings_cls.model_fields, given))


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
    registry: Path = Path("registry.json")
    log: Literal["console", "json"] = "console"
    mail_from: str = MAIL_FROM_DEFAULT
    public_url: PublicUrl | None = None
    allow_private_gateways: bool = True
    allow_private_links: bool = False
    artifacts: Path | str = Path("outrider-artifacts")
    spool: Path = Path("outrider-spool")
    admission: AdmissionTable = Field(default_factory=AdmissionTable)
    state_store: StateStoreSettings = Field(default_factory=StateStoreSettings)
    nameservers: list[str] = Field(default_factory=list)
    redis_url: str | None = Field(default=None, repr=False)
    cors_origins: list[WebOrigin] = Field(default_factory=list)
    trusted_proxies: Annotated[list[Network], NoDecode, BeforeValidator(_networks)] = Field(
        default_factory=list
    )
    """Proxies in front of the server, whose `X-Forwarded-For` says whose request it is."""
    targets: dict[str, TargetSettings] = Field(default_factory=dict)
    workflow_targets: dict[Channel, str] = Field(default_factory=dict)
    """Which submission target a workflow's step takes that names none, by channel."""
    bus: Sinks = Field(default_factory=dict)
    jobs_in_parallel: int = Field(default=Limits.jobs_in_parallel, ge=1, le=64)
    lease_seconds: float = Field(default=Limits.lease_seconds, ge=0.5, le=3_600)
    engine: Literal["local", "temporal"] = "local"
    temporal_address: TemporalAddress = "127.0.0.1:7233"
    temporal_namespace: str = Field(default="default", min_length=1, max_length=255)
    temporal_task_queue: str = Field(default="outrider", min_length=1, max_length=200)
    temporal_window_jobs: int = Field(
        default=TEMPORAL_WINDOW_JOBS, ge=1, le=TEMPORAL_WINDOW_JOBS_MAX
    )
    """How many jobs of one run may be with workers at once."""
    temporal_tls: bool = False
    temporal_tls_ca: Path | None = None
    temporal_tls_certificate: Path | None = None
    temporal_tls_key: Path | None = None
    temporal_tls_server_name: str | None = None
    temporal_api_key: SecretReference | None = None
    temporal_codec_key: SecretReference | None = None
    session_secret: SecretReference | None = None
    """What sessions of the console are signed with; without it, a file in the spool folder."""
    root_key: str | None = Field(default=None, min_length=ROOT_KEY_MIN_CHARACTERS, repr=False)

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
            file,
            UnknownVariables(settings_cls, env_settings, file),
        )

    @model_validator(mode="after")
    def _temporal_is_reached_safely(self) -> Self:
        if (self.temporal_tls_certificate is None) != (self.temporal_tls_key is None):
            raise ValueError("temporal_tls_certificate and temporal_tls_key belong together")
        files = self.temporal_tls_ca or self.temporal_tls_certificate
        if not self.temporal_tls and (files or self.temporal_tls_server_name):
            raise ValueError("temporal_tls_* is of use with temporal_tls = true only")
        if not self.temporal_tls and self.temporal_api_key is not None:
            raise ValueError(
                "temporal_api_key would cross the network in the open: set temporal_tls"
            )
        return self

    def as_environment(self) -> dict[str, str]:
        """The same settings for a child process."""
        document = self.model_dump(mode="json", exclude_none=True)
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
