"""What calls send and answer.

Generated from the OpenAPI document by `make docs`; do not edit.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import field

from outrider_client.base import Model, OpenEnum


class AbsenceRefused(OpenEnum):
    NOTHING_MATCHED = "nothing_matched"
    UNREADABLE_ROWS = "unreadable_rows"


class BlockerCode(OpenEnum):
    SCHEDULED = "SCHEDULED"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    AWAITING_ROOM = "AWAITING_ROOM"
    PAUSED = "PAUSED"
    QUIET_HOURS = "QUIET_HOURS"
    TARGET_SHAPED = "TARGET_SHAPED"
    TARGET_THROTTLED = "TARGET_THROTTLED"
    TARGET_DOWN = "TARGET_DOWN"
    TARGET_PAUSED = "TARGET_PAUSED"
    NO_WORKER = "NO_WORKER"
    DATABASE_DOWN = "DATABASE_DOWN"
    IN_DOUBT = "IN_DOUBT"
    DOUBTS_SETTLING = "DOUBTS_SETTLING"
    ENGINE_DOWN = "ENGINE_DOWN"
    DATABASE_RESTORED = "DATABASE_RESTORED"
    ROLLOUT_HOLD = "ROLLOUT_HOLD"
    AWAITING_WINNER = "AWAITING_WINNER"


class CampaignState(OpenEnum):
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    READY = "ready"
    COMPLETED = "completed"
    FAILED = "failed"


class ChangeKind(OpenEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"
    KEPT = "kept"
    SAME = "same"


class Channel(OpenEnum):
    EMAIL = "email"
    SMS = "sms"
    PUSH = "push"
    WHATSAPP = "whatsapp"
    VOICE = "voice"
    SOCIAL = "social"


class Decision(OpenEnum):
    STEPS = "steps"
    SUPPRESSED = "suppressed"
    LEGACY = "legacy"
    LEGACY_FALLBACK = "legacy_fallback"
    FAILED = "failed"


class DeliveryState(OpenEnum):
    NONE = "none"
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    READ = "read"
    REPLIED = "replied"
    OPTED_OUT = "opted_out"
    FAILED = "failed"


class DoubtVerdict(OpenEnum):
    SENT = "sent"
    FAILED = "failed"
    RESUBMIT = "resubmit"


class EventStatus(OpenEnum):
    RECEIVED = "received"
    ROUTED = "routed"
    FAILED = "failed"


class EvidenceKind(OpenEnum):
    RECEIPT = "receipt"
    KEY = "key"
    LOOK_UP = "look_up"
    LOOK_UP_BY_CONTENT = "look_up_by_content"
    RECORD = "record"
    PERSON = "person"


class ExhaustedReason(OpenEnum):
    DEADLINE_EXCEEDED = "deadline_exceeded"
    MAX_ATTEMPTS = "max_attempts"
    ONE_SHOT = "one_shot"


class ExportFormat(OpenEnum):
    CSV = "csv"
    JSON = "json"
    NDJSON = "ndjson"


class HeldFor(OpenEnum):
    APPROVAL = "approval"
    ROOM = "room"


class HitKind(OpenEnum):
    PERSON = "person"
    CAMPAIGN = "campaign"
    RUN = "run"
    ITEM = "item"
    EVENT = "event"
    INTENT = "intent"


class IfPast(OpenEnum):
    SKIP = "skip"
    SEND = "send"


class IntentStatus(OpenEnum):
    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    EXHAUSTED = "EXHAUSTED"


class ItemStatus(OpenEnum):
    QUEUED = "queued"
    SENT = "sent"
    CALLED = "called"
    POSTED = "posted"
    FAILED = "failed"
    SKIPPED = "skipped"


class JobOutcome(OpenEnum):
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"


class JobStatus(OpenEnum):
    QUEUED = "queued"
    LOCKED = "locked"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"


class KeyScope(OpenEnum):
    READ = "read"
    OPERATE = "operate"
    ADMIN = "admin"


class MatchedBy(OpenEnum):
    REFERENCE = "reference"
    PROVIDER_MESSAGE_ID = "provider_message_id"
    PERSON = "person"


class Meaning(OpenEnum):
    SENT = "sent"
    FAILED = "failed"
    NOT_RECEIVED = "not_received"
    UNCLEAR = "unclear"


class NotificationStatus(OpenEnum):
    PENDING = "pending"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class OptOutWord(OpenEnum):
    STOP = "stop"
    START = "start"
    HELP = "help"


class PersonKind(OpenEnum):
    EMAIL = "email"
    PHONE = "phone"
    PUSH_TOKEN = "push_token"
    RECIPIENT = "recipient"


class PhaseState(OpenEnum):
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


class Progress(OpenEnum):
    NOT_SENT = "NOT_SENT"
    SENT_NO_ANSWER = "SENT_NO_ANSWER"
    ANSWERED = "ANSWERED"


class ReceiptEvent(OpenEnum):
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    READ = "read"
    REPLIED = "replied"
    OPTED_OUT = "opted_out"
    OPTED_IN = "opted_in"
    FAILED = "failed"


class RerunScope(OpenEnum):
    REMAINDER = "remainder"
    ALL = "all"


class RolloutState(OpenEnum):
    WAITING = "waiting"
    SENDING = "sending"
    HOLDING = "holding"
    DONE = "done"


class RowMatch(OpenEnum):
    REFERENCE = "reference"
    PROVIDER_MESSAGE_ID = "provider_message_id"
    RECIPIENT_AND_TIME = "recipient_and_time"


class RunStatus(OpenEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"


class Settles(OpenEnum):
    RECEIPT = "receipt"
    KEY = "key"
    LOOK_UP = "look_up"
    PERSON = "person"


class Signal(OpenEnum):
    APPROVE = "APPROVE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    CANCEL = "CANCEL"
    RETRY_STEP = "RETRY_STEP"
    ADVANCE = "ADVANCE"
    DECIDE = "DECIDE"


class SnapshotStatus(OpenEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class StepStatus(OpenEnum):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class SuppressionSource(OpenEnum):
    API = "api"
    UNSUBSCRIBE = "unsubscribe"
    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    STOP = "stop"
    IMPORT = "import"


class TraceKind(OpenEnum):
    ITEM = "item"
    EVENT = "event"
    RECEIPT = "receipt"
    SUPPRESSION = "suppression"


class WaitsFor(OpenEnum):
    QUIET_HOURS = "quiet_hours"
    SENDING_WINDOW = "sending_window"
    FREQUENCY_CAP = "frequency_cap"
    LOCAL_TIME = "local_time"
    WARM_UP = "warm_up"
    DOMAIN_LIMIT = "domain_limit"
    DOMAIN_THROTTLED = "domain_throttled"


class WhenReached(OpenEnum):
    WAIT = "wait"
    SKIP = "skip"


class WinnerBy(OpenEnum):
    PERSON = "person"
    RECEIPTS = "receipts"


class WinnerRate(OpenEnum):
    DELIVERED = "delivered"
    READ = "read"
    REPLIED = "replied"


class AccountingAnswer(Model, frozen=True, kw_only=True):
    """intended = waiting + inDoubt + sent + failed + skipped, always."""

    intended: int
    waiting: int
    in_doubt: int
    sent: int
    """Sent, called and posted."""
    failed: int
    skipped: int
    delivery: DeliveryCountsAnswer | None = None
    """What receipts say about the messages that were sent; null for phases other than a launch.
    """


class AlertAnswer(Model, frozen=True, kw_only=True):
    id: str
    code: str
    severity: str
    subject: str
    """What it is about: a run, or a sink."""
    message: str
    detail: dict[str, Any]
    times: int
    """How often it was raised since it was opened."""
    raised_at: datetime
    last_seen_at: datetime
    resolved_at: datetime | None = None
    runbook: str
    """The page that says what to do: a URL where `OUTRIDER_PUBLIC_URL` is set, otherwise a path of
    this server.
    """


class AllRedriven(Model, frozen=True, kw_only=True):
    success: bool = True
    redriven: int
    """How many dead letters there were."""


class AllResolved(Model, frozen=True, kw_only=True):
    success: bool = True
    matching: int
    """How many items matched before."""
    resolved: int
    left: int
    """How many items still match; repeat the request if this is not 0."""
    confirmed: bool


class ArtifactAnswer(Model, frozen=True, kw_only=True):
    id: str
    run_id: str
    name: str
    media_type: str
    sha256: str
    size_bytes: int
    created_at: datetime


class AttemptAnswer(Model, frozen=True, kw_only=True):
    number: int
    contract_attempt: int
    """The same as `number`."""
    engine_attempt: int
    """Which call of the attempt; 1 is the first."""
    opened_at: datetime
    closed_at: datetime | None = None
    progress: Progress | None = None
    outcome: str | None = None
    reason: str | None = None
    error: str | None = None
    provider_message_id: str | None = None
    repeat: int
    """Which repeat of the attempt's call it was, after its worker was lost; 0 is the call itself.
    Contracts count attempts, not repeats.
    """


class AudienceAdded(Model, frozen=True, kw_only=True):
    success: bool = True
    campaign_id: str
    recipients: int
    staged: bool
    """True if they wait for the campaign's audience_import."""


class AuditAnswer(Model, frozen=True, kw_only=True):
    id: str
    created_at: datetime
    actor: str
    event: str
    run_id: str | None = None
    job_id: str | None = None
    outbox_id: str | None = None
    detail: dict[str, Any]


class BatchError(Model, frozen=True, kw_only=True):
    code: str
    message: str


class BeginBody(Model, frozen=True, kw_only=True):
    expected_state: PhaseState | None = field(name="expected_state", default=None)
    """Refuse the request unless the phase is in this state."""
    run_request_id: str | None = None
    """Repeating the request with the same ID returns the same run."""


class BlockerAnswer(Model, frozen=True, kw_only=True):
    """What it waits for, since when, and what to do."""

    code: BlockerCode
    since: datetime
    message: str
    """In words, for people."""
    hint: str
    """What to do about it."""
    submission_target: str | None = None
    """The target that it waits for, if any."""


class BypassAnswer(Model, frozen=True, kw_only=True):
    """A phase's state that was written around the state machine."""

    id: str
    created_at: datetime
    campaign_id: str
    phase: str
    from_status: str
    to_status: str
    caller: str
    reason: str


class CallbackSecretAnswer(Model, frozen=True, kw_only=True):
    secret: str
    """`whsec_` and base64, as Standard Webhooks libraries take it."""


class CampaignAnswer(Model, frozen=True, kw_only=True):
    """The definition as it was written, without the audience, which may be large."""

    campaign_id: str
    name: str
    phases: list[str]
    messages: list[MessageAnswer]
    scheduled_for: datetime | None = None
    batch_size: int
    require_approval: bool
    topic: str | None = None
    """What a recipient can opt out of without leaving the channel."""
    transactional: bool = False
    """Blocked only by opt-outs that include transactional messages."""
    retry_policy: dict[str, StepRetriesAnswer] = field(default_factory=dict)
    """By phase: how often a job is retried after it has died."""
    local_launch: LocalLaunchAnswer | None = None
    """For a launch at each recipient's local time; `scheduledFor` is then when it begins anywhere.
    """
    pause_on: PauseOnAnswer | None = None
    """Shares of the messages; with a higher rate it is paused."""
    rollout: list[PlannedStepAnswer] = field(default_factory=list)
    """The steps of the launch; empty if everybody is sent to at once."""
    winner: WinnerRuleAnswer | None = None
    """Who chooses the variant of the rollout's last step."""
    recipients: int
    last_sequence: int
    created_at: datetime


class CampaignCreated(Model, frozen=True, kw_only=True):
    success: bool = True
    campaign_id: str
    name: str
    recipients: int
    phases: list[str]
    warnings: list[str] = field(default_factory=list)
    """Template variables missing from the first recipients."""


class CampaignLine(Model, frozen=True, kw_only=True):
    campaign_id: str
    name: str
    recipients: int
    launch: PhaseState | None = None
    state: CampaignState
    """Overall state; `ready` when some phases are completed and the next can start."""
    control_phase: str | None = None
    phases: list[PhaseStanding]
    phase: str | None = None
    """The phase the figures are for: the control phase, else the launch, else the last."""
    run_id: str | None = None
    progress_percentage: float
    accounting: AccountingAnswer | None = None
    """For a phase in progress, the latest reported progress, about a second old."""
    outcome: AccountingAnswer | None = None
    """The same over all runs of a retried launch."""
    last_sequence: int
    created_at: datetime


class CampaignStatus(Model, frozen=True, kw_only=True):
    """The snapshot: authoritative, and a client's new baseline."""

    campaign_id: str
    name: str
    control_phase: str | None = None
    """The phase that pause, resume and stop target."""
    last_sequence: int
    recipients: int
    phases: dict[str, PhaseStatus]
    phase_order: list[str]


class CertificateAnswer(Model, frozen=True, kw_only=True):
    """The launch proof, counted from the ledger's own rows."""

    run_id: str
    campaign_id: str
    status: RunStatus
    holds: bool
    criteria: list[Criterion]
    repeats: RepeatsAnswer
    doubts: list[SettledDoubts]
    held: list[HeldItems]
    fallbacks: list[FallbackItems] | None = None
    accounting: LedgerAccounting
    receipts: ReportedByReceipts | None = None
    """As reported by receipts; null for other phases than a launch."""
    ledger_digest: str
    event_chain: EventChainAnswer | None = None
    """Null for a run that ended before there were hash chains."""
    seal: SealAnswer | None = None
    """Null until the run is sealed, a moment after its end."""
    issued_at: datetime


class ChosenWinnerAnswer(Model, frozen=True, kw_only=True):
    variant: str
    decided_by: str
    """`receipts`, or who chose it."""
    decided_at: datetime


class ControlBody(Model, frozen=True, kw_only=True):
    expected_state: PhaseState | None = field(name="expected_state", default=None)
    """Refuse the request unless the phase is in this state."""


class ControlDone(Model, frozen=True, kw_only=True):
    success: bool = True
    campaign_id: str
    phase: str
    state: PhaseState
    sequence: int
    """Sequence of the event that put the phase into this state."""
    changed: bool
    """False if nothing had to change."""
    run_id: str | None = None
    waits_for: HeldFor | None = None
    """What the run waits for before it is released: an APPROVE, or capacity."""


class CountedDoubts(Model, frozen=True, kw_only=True):
    name: str
    label: str
    """What it is called: a campaign's name."""
    count: int


class Criterion(Model, frozen=True, kw_only=True):
    name: str
    holds: bool
    detail: str


class DeliveryAnswer(Model, frozen=True, kw_only=True):
    """What its provider's receipts say about a message that was sent."""

    state: DeliveryState
    permanent: bool
    """Of a bounce or failure: trying again is pointless."""
    reason: str
    at: datetime | None = None
    """When, by the provider's clock where it says so."""


class DeliveryCountsAnswer(Model, frozen=True, kw_only=True):
    """What receipts say about the messages that were sent; adds up to `sent`."""

    delivered: int
    bounced: int
    complained: int
    read: int
    replied: int
    opted_out: int
    failed: int
    """Reported as not delivered, after they were sent."""
    unknown: int
    """Sent, and no receipt has arrived."""


class DiffAnswer(Model, frozen=True, kw_only=True):
    """What was applied, or would be; unchanged rules and steps are only counted."""

    success: bool = True
    applied: bool
    """False for a dry run, or if nothing changes."""
    fingerprint: str
    """The `expected` of an apply that agrees to this diff."""
    added: int
    changed: int
    removed: int
    kept: int
    """Existing rules and steps that the document does not contain."""
    same: int
    rules: list[RuleChangeAnswer]
    policies: list[FieldChangeAnswer]


class DoubtAnswer(Model, frozen=True, kw_only=True):
    outbox_id: str
    run_id: str | None = None
    campaign_id: str | None = None
    recipient_id: str
    address: str | None = None
    channel: Channel
    provider: str
    submission_target: str
    """Where it was called last."""
    reference: str
    attempts: int
    contract_attempt: int
    """The last attempt, as its contract counts; 0 before the first."""
    engine_attempt: int
    """Which call of that attempt: it grows when a call whose worker was lost is repeated under the
    same reference. Contracts do not count it.
    """
    progress: Progress | None = None
    """How far the last attempt got, as far as is known."""
    reason: str | None = None
    error: str | None = None
    opened_at: datetime | None = None
    doubted_at: datetime
    settles: Settles | None = None
    """The next evidence that can settle it; null until a worker has looked."""
    since: datetime
    """Since when it has been waiting for this evidence."""
    next_check_at: datetime | None = None
    """When it is checked next; null if only a person can settle it."""
    finding: str | None = None
    """What the last check found."""
    is_exhausted: bool
    """Its contract allows no more attempts, so `resubmit` is refused."""


class DoubtCountsAnswer(Model, frozen=True, kw_only=True):
    """How many there are; of each list the most frequent come first."""

    total: int
    most: int
    """Counting stops here."""
    settles: dict[str, int]
    """By receipt, key, look_up and person."""
    unchecked: int
    """No worker has looked at them yet."""
    left_to_people: int
    settling_by_themselves: int
    people_since: datetime | None = None
    """Since when the first one has been waiting for a person."""
    submission_targets: list[CountedDoubts]
    reasons: list[CountedDoubts]
    campaigns: list[CountedDoubts]


class DryRun(Model, frozen=True, kw_only=True):
    campaign_id: str
    scope: RerunScope
    messages: list[MessageDryRun]
    would_send: int
    would_fail: int
    """Recipients for whom the message cannot be rendered."""
    failures: list[DryRunFailure]
    rendered: int
    """How many messages were rendered; a large audience is only sampled."""
    skipped: dict[str, int]
    """How many, by reason."""
    already_sent: int
    """Sent by the last launch."""
    rollout: list[DryRunStep] = field(default_factory=list)
    """The steps of the launch."""


class DryRunBody(Model, frozen=True, kw_only=True):
    scope: RerunScope | None = None


class DryRunFailure(Model, frozen=True, kw_only=True):
    message_id: str
    variant: str | None = None
    reason: str
    detail: str
    recipients: int
    """How many of the rendered messages would fail this way."""
    examples: list[str]
    """The first few of them."""


class DryRunStep(Model, frozen=True, kw_only=True):
    percent: float
    """Of the audience, earlier steps included."""
    hold_minutes: float
    """How long it is watched before the next step."""
    step: int
    recipients: int


class EmissionDocument(Model, frozen=True, kw_only=True):
    event_id: str
    """A repeat is safe."""
    trigger: str
    """What happened: a known name."""
    occurred_at: datetime | None = None
    """When it happened; when it was received, if left out."""
    subject: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Whom it concerns: lead, partner, agent, each with its addresses."""
    variables: dict[str, Any] = field(default_factory=dict)
    """What templates may name."""


class ErasedArtifact(Model, frozen=True, kw_only=True):
    artifact_id: str
    run_id: str
    name: str


class ErasedTable(Model, frozen=True, kw_only=True):
    table: str
    rows: int


class ErasureAnswer(Model, frozen=True, kw_only=True):
    """What was erased, or would be. Unless `complete`, something has to be waited for."""

    erasure_id: str
    dry_run: bool
    complete: bool
    addresses: list[KnownAddress]
    tables: list[ErasedTable]
    artifacts: list[ErasedArtifact]
    waiting: int
    """Messages that are being sent or in doubt, and messages and events that still have to tell
    others of the person.
    """
    jobs: int
    """Jobs that have read the person's addresses and are not done."""
    rules: list[str]
    """Workflow rules that name the person as a custom recipient."""
    rewritten: bool
    """Whether nothing is left in the database's files, as far as the store can say."""


class EventAnswer(Model, frozen=True, kw_only=True):
    event_id: str
    trigger: str
    occurred_at: datetime
    status: EventStatus
    routes: list[RouteAnswer]
    error: str | None = None
    created_at: datetime
    updated_at: datetime


class EventChainAnswer(Model, frozen=True, kw_only=True):
    """The run's log as a hash chain."""

    events: int
    head: str
    """The newest hash, which covers every event; in hex."""


class EventEnvelope(Model, frozen=True, kw_only=True):
    """The `data:` of each event of the stream; its `id:` is the sequence."""

    type: str
    campaign_id: str
    phase: str | None = None
    """Null for `snapshot_required` only."""
    sequence: int
    timestamp: datetime
    payload: dict[str, Any]


class EventExplanation(Model, frozen=True, kw_only=True):
    event_id: str
    sentences: list[str]
    blockers: list[BlockerAnswer]
    """What the event waits for, or its messages; empty while they move."""


class EventItemAnswer(Model, frozen=True, kw_only=True):
    outbox_id: str
    """Its ledger item."""
    channel: Channel
    recipient_id: str
    address: str | None = None
    status: NotificationStatus
    reason: str | None = None
    waits_for: str | None = None
    next_attempt_at: datetime | None = None
    attempts: int
    template: str
    submission_target: str
    delivery: DeliveryAnswer


class Explanation(Model, frozen=True, kw_only=True):
    outbox_id: str
    contract_attempt: int
    engine_attempt: int
    sentences: list[str]
    blockers: list[BlockerAnswer]
    """What the item waits for; empty if it has ended, or is under way."""


class ExportCounts(Model, frozen=True, kw_only=True):
    """Doubts of the target, by their result."""

    doubts: int
    sent: int
    failed: int
    resubmit: int
    in_doubt: int
    """Stay in doubt."""
    ambiguous: int
    """Of these, several rows could be about them."""
    not_covered: int
    """Of these, called outside the time range that it covers."""
    held: int
    """Of these, their worker may still be running."""


class ExportFile(Model, frozen=True, kw_only=True):
    name: str
    sha256: str
    format: ExportFormat
    encoding: str
    delimiter: str | None = None
    has_header: bool
    """False: its columns are `column 1`, `column 2` and so on."""
    columns: list[str]
    rows: int
    unreadable: int
    """Lines that could not be read."""
    problems: list[ExportProblem]
    """The first of them."""
    first_time: datetime | None = None
    last_time: datetime | None = None
    sample: list[dict[str, str]]
    """The first rows, as they were read."""


class ExportMatchAnswer(Model, frozen=True, kw_only=True):
    outbox_id: str
    recipient_id: str
    address: str | None = None
    verdict: DoubtVerdict
    matched_by: RowMatch | None = None
    """Null: the export does not have it."""
    row: ExportRowAnswer | None = None


class ExportProblem(Model, frozen=True, kw_only=True):
    line: str
    message: str


class ExportRowAnswer(Model, frozen=True, kw_only=True):
    line: int
    reference: str | None = None
    provider_message_id: str | None = None
    recipient: str | None = None
    time: datetime | None = None
    status: str | None = None


class ExportStatus(Model, frozen=True, kw_only=True):
    status: str
    """As in the export; empty for all rare ones together."""
    means: Meaning
    rows: int


class FallbackItems(Model, frozen=True, kw_only=True):
    """How many items of a target its fallback accepted."""

    submission_target: str
    fallback: str
    items: int


class FieldChangeAnswer(Model, frozen=True, kw_only=True):
    field: str
    before: Any
    after: Any


class FrequencyCapAnswer(Model, frozen=True, kw_only=True):
    messages: int
    per_hours: int
    when_reached: WhenReached
    channels: list[Channel] | None = None
    """Null means all of them."""


class HeldAnswer(Model, frozen=True, kw_only=True):
    """Recipients who wait, or waited, for the workspace's policy before anything was sent."""

    waits_for: WaitsFor
    waiting: int
    """How many wait for it now."""
    items: int
    """How many did at most."""
    since: datetime
    until: datetime
    """Until when the first of them waits, or waited."""


class HeldItems(Model, frozen=True, kw_only=True):
    """How many recipients a policy held back for a while, at most at one time."""

    waits_for: WaitsFor
    items: int


class HeldJobsAnswer(Model, frozen=True, kw_only=True):
    run_id: str | None = None
    """Null for single messages."""
    submission_target: str
    jobs: int
    since: datetime
    lease_ends_at: datetime | None = None
    """When others take them over, unless the worker reports first."""


class HitAnswer(Model, frozen=True, kw_only=True):
    kind: HitKind
    id: str
    """The ID to request it by: a person's address, an event's own ID."""
    title: str
    detail: str | None = None
    at: datetime | None = None


class IntentAnswer(Model, frozen=True, kw_only=True):
    """Contract 001's intent, in its current state."""

    intent_id: str
    outbox_id: str
    """Its ledger item."""
    submission_target: str
    payload: dict[str, Any]
    topic: str | None = None
    transactional: bool
    callback_url: str | None = None
    time_zone: str | None = None
    """The recipient's, as it was submitted."""
    status: IntentStatus
    final_outcome: str | None = None
    exhausted_reason: ExhaustedReason | None = None
    in_doubt: bool
    contract: IntentContract
    reason: str | None = None
    """The last call, whether or not it counted as an attempt."""
    error: str | None = None
    """What the gateway said then, in its own words."""
    waits_for: str | None = None
    """For waiting items: the state of the target."""
    resubmits: str | None = None
    """The ended intent that this one sends after all, if it does."""
    resubmitted_as: str | None = None
    """The intent that this one was resubmitted as, if it was."""
    blockers: list[BlockerAnswer]
    """What a pending intent waits for, as `GET` says it; submitting one says nothing of it."""
    created_at: datetime
    delivery: DeliveryAnswer
    attempts: list[IntentAttempt]


class IntentAttempt(Model, frozen=True, kw_only=True):
    number: int
    contract_attempt: int
    """The same as `number`."""
    engine_attempt: int
    """Which call of the attempt; 1 is the first."""
    opened_at: datetime
    closed_at: datetime | None = None
    outcome: str | None = None
    reason: str | None = None
    """The gateway's reason for not accepting it, or Outrider's."""
    error: str | None = None
    """What the gateway said, in its own words."""
    progress: Progress | None = None


class IntentBatchAnswer(Model, frozen=True, kw_only=True):
    items: list[IntentBatchItem]
    """In the order of the request."""


class IntentBatchBody(Model, frozen=True, kw_only=True):
    intents: list[Any]
    """Each as in the body of `POST /intents`. An invalid one gets its own error and does not
    affect the others.
    """


class IntentBatchItem(Model, frozen=True, kw_only=True):
    """What `POST /intents` would have answered."""

    status: int
    """201 new, 200 already known, 400 or 409 refused."""
    intent_id: str | None = None
    """Null if it could not be read."""
    outbox_id: str | None = None
    intent_status: IntentStatus | None = None
    error: BatchError | None = None


class IntentBody(Model, frozen=True, kw_only=True):
    intent_id: str
    """Repeating it is safe."""
    submission_target: str
    payload: dict[str, Any]
    topic: str | None = None
    """What its recipient can opt out of without leaving the channel."""
    transactional: bool = False
    """Blocked only by opt-outs that include transactional messages."""
    callback_url: str | None = None
    """Receives the outcome and later receipts, as CloudEvents signed per Standard Webhooks. Must
    be https and a public address, unless the server allows others. A repeat with another URL is
    the same intent and keeps the first.
    """
    time_zone: str | None = None
    """The recipient's time zone, which the hours of the workspace's policy follow. Defaults to
    that of the phone number's prefix, then the workspace's.
    """


class IntentContract(Model, frozen=True, kw_only=True):
    """The terms that were in force when the intent was submitted, and that it keeps."""

    submission_target: str
    gateway_type: str
    gateway_url: str | None = None
    """Null for other workspaces than the default one."""
    mode: str
    policy: str
    max_acceptance_seconds: float | None = None
    max_attempts: int | None = None
    terminal_outcomes: list[str]


class IntentLineAnswer(Model, frozen=True, kw_only=True):
    intent_id: str
    outbox_id: str
    submission_target: str
    topic: str | None = None
    transactional: bool
    status: IntentStatus
    final_outcome: str | None = None
    exhausted_reason: ExhaustedReason | None = None
    in_doubt: bool
    reason: str | None = None
    attempts_made: int
    contract_attempt: int
    """The last attempt, as its contract counts; 0 before the first."""
    engine_attempt: int
    """Which call of that attempt: it grows when a call whose worker was lost is repeated under the
    same reference. Contracts do not count it.
    """
    created_at: datetime
    updated_at: datetime


class ItemAnswer(Model, frozen=True, kw_only=True):
    outbox_id: str
    run_id: str | None = None
    job_id: str | None = None
    recipient_id: str
    address: str | None = None
    channel: Channel
    provider: str
    submission_target: str
    status: ItemStatus
    intent_status: IntentStatus | None = None
    exhausted_reason: ExhaustedReason | None = None
    reason: str | None = None
    error: str | None = None
    attempts_made: int
    contract_attempt: int
    """The last attempt, as its contract counts; 0 before the first."""
    engine_attempt: int
    """Which call of that attempt: it grows when a call whose worker was lost is repeated under the
    same reference. Contracts do not count it.
    """
    in_doubt: bool
    doubted_at: datetime | None = None
    next_attempt_at: datetime | None = None
    provider_message_id: str | None = None
    reference: str
    """The reference sent to the provider; look it up there."""
    event_id: str | None = None
    """The domain event that caused it."""
    waits_for: str | None = None
    """Why `nextAttemptAt` is delayed."""
    called_target: str | None = None
    """If the last attempt went to a fallback: which; only where one item is read."""
    variant: str | None = None
    """Of its message, if that has variants."""
    created_at: datetime
    updated_at: datetime
    delivery: DeliveryAnswer
    subject: str | None = None
    attempts: list[AttemptAnswer]
    late_acceptances: list[LateAcceptanceAnswer]
    """Acceptances that arrived after the item had another outcome."""


class ItemLine(Model, frozen=True, kw_only=True):
    outbox_id: str
    run_id: str | None = None
    job_id: str | None = None
    recipient_id: str
    address: str | None = None
    channel: Channel
    provider: str
    submission_target: str
    status: ItemStatus
    intent_status: IntentStatus | None = None
    exhausted_reason: ExhaustedReason | None = None
    reason: str | None = None
    error: str | None = None
    attempts_made: int
    contract_attempt: int
    """The last attempt, as its contract counts; 0 before the first."""
    engine_attempt: int
    """Which call of that attempt: it grows when a call whose worker was lost is repeated under the
    same reference. Contracts do not count it.
    """
    in_doubt: bool
    doubted_at: datetime | None = None
    next_attempt_at: datetime | None = None
    provider_message_id: str | None = None
    reference: str
    """The reference sent to the provider; look it up there."""
    event_id: str | None = None
    """The domain event that caused it."""
    waits_for: str | None = None
    """Why `nextAttemptAt` is delayed."""
    called_target: str | None = None
    """If the last attempt went to a fallback: which; only where one item is read."""
    variant: str | None = None
    """Of its message, if that has variants."""
    created_at: datetime
    updated_at: datetime
    delivery: DeliveryAnswer


class ItemsByReason(Model, frozen=True, kw_only=True):
    status: str
    reason: str
    items: int


class JobAnswer(Model, frozen=True, kw_only=True):
    job_id: str
    job_type: str
    submission_target: str
    status: JobStatus
    outcome: JobOutcome | None = None
    attempts: int
    items: int
    sent: int
    failed: int
    skipped: int
    paused: bool
    cancelled: bool
    last_error: str | None = None
    run_at: datetime | None = None
    result: dict[str, Any] | None = None
    """Result of the phase's own job."""
    updated_at: datetime


class JobsByStatus(Model, frozen=True, kw_only=True):
    status: JobStatus
    outcome: JobOutcome | None = None
    jobs: int
    attempts: int
    """Number of lost attempts."""
    last_error: str | None = None


class KeyAnswer(Model, frozen=True, kw_only=True):
    id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    revoked_at: datetime | None = None


class KeyBody(Model, frozen=True, kw_only=True):
    name: str
    scopes: list[KeyScope]


class KnownAddress(Model, frozen=True, kw_only=True):
    kind: PersonKind
    address: str


class LateAcceptanceAnswer(Model, frozen=True, kw_only=True):
    attempt: int
    answered_at: datetime
    provider_message_id: str | None = None
    recorded_at: datetime


class LedgerAccounting(Model, frozen=True, kw_only=True):
    """intended = waiting + inDoubt + sent + failed + skipped, always."""

    intended: int
    waiting: int
    in_doubt: int
    sent: int
    """Sent, called and posted."""
    failed: int
    skipped: int


class LetterAnswer(Model, frozen=True, kw_only=True):
    """An event that could not be delivered to a sink, and why."""

    id: str
    sink: str
    """`@callbacks` for the callback of an intent."""
    run_id: str | None = None
    """Null for a message event."""
    run_seq: int | None = None
    outbox_id: str | None = None
    """The item of a message event."""
    event_type: str
    attempts: int
    error: str
    created_at: datetime
    redriven_at: datetime | None = None


class LocalLaunchAnswer(Model, frozen=True, kw_only=True):
    local: str
    fallback_zone: str


class MatchBody(Model, frozen=True, kw_only=True):
    outbox_id: str


class Matched(Model, frozen=True, kw_only=True):
    success: bool = True
    receipt_id: str
    outbox_id: str


class MessageAnswer(Model, frozen=True, kw_only=True):
    id: str
    channel: Channel
    submission_target: str
    subject: str | None = None
    body: str
    script_version: str | None = None
    topic: str | None = None
    """Null means that of the campaign."""
    transactional: bool | None = None
    """Null means that of the campaign."""
    variants: list[VariantAnswer] = field(default_factory=list)
    """Each recipient is sent one of these instead."""


class MessageDryRun(Model, frozen=True, kw_only=True):
    message_id: str
    variant: str | None = None
    """Set for a retry, in which everybody keeps their variant."""
    channel: Channel
    would_send: int
    would_fail: int
    """Among the rendered messages; of several variants, with the one that fails most often."""
    skipped: dict[str, int]


class MessageVariantsAnswer(Model, frozen=True, kw_only=True):
    message_id: str
    awaits_winner: bool
    """The last step of the rollout is not sent before one is chosen."""
    winner: ChosenWinnerAnswer | None = None
    variants: list[VariantFiguresAnswer]


class NewKey(Model, frozen=True, kw_only=True):
    success: bool = True
    id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    revoked_at: datetime | None = None
    key: str | None = None
    """Shown only once: null when the request is repeated."""


class PauseOnAnswer(Model, frozen=True, kw_only=True):
    bounce_rate: float | None = None
    complaint_rate: float | None = None
    failure_rate: float | None = None
    silence_rate: float | None = None
    minimum_messages: int = 100
    """From how many messages on rates are compared."""


class PersonAddress(Model, frozen=True, kw_only=True):
    kind: PersonKind
    address: str


class PersonAnswer(Model, frozen=True, kw_only=True):
    address: str
    """Normalised, as it is stored."""
    kind: PersonKind
    recipient_ids: list[str]
    """In the audiences that have this address."""
    addresses: list[PersonAddress]
    """Other addresses of the same recipients; each has its own history."""
    total: int
    """How many entries there are, over all pages."""
    complete: bool
    """False if there is more than can be shown for one person."""
    items: list[PersonEntry]
    next: str | None = None
    """The `after` of the next page; null on the last page."""


class PersonEntry(Model, frozen=True, kw_only=True):
    """Exactly one of `item`, `event`, `receipt` and `suppression` is set, as `kind` says."""

    kind: TraceKind
    at: datetime
    item: PersonItem | None = None
    event: EventAnswer | None = None
    receipt: ReceiptAnswer | None = None
    suppression: SuppressionAnswer | None = None


class PersonItem(Model, frozen=True, kw_only=True):
    outbox_id: str
    run_id: str | None = None
    job_id: str | None = None
    recipient_id: str
    address: str | None = None
    channel: Channel
    provider: str
    submission_target: str
    status: ItemStatus
    intent_status: IntentStatus | None = None
    exhausted_reason: ExhaustedReason | None = None
    reason: str | None = None
    error: str | None = None
    attempts_made: int
    contract_attempt: int
    """The last attempt, as its contract counts; 0 before the first."""
    engine_attempt: int
    """Which call of that attempt: it grows when a call whose worker was lost is repeated under the
    same reference. Contracts do not count it.
    """
    in_doubt: bool
    doubted_at: datetime | None = None
    next_attempt_at: datetime | None = None
    provider_message_id: str | None = None
    reference: str
    """The reference sent to the provider; look it up there."""
    event_id: str | None = None
    """The domain event that caused it."""
    waits_for: str | None = None
    """Why `nextAttemptAt` is delayed."""
    called_target: str | None = None
    """If the last attempt went to a fallback: which; only where one item is read."""
    variant: str | None = None
    """Of its message, if that has variants."""
    created_at: datetime
    updated_at: datetime
    delivery: DeliveryAnswer
    campaign_id: str | None = None
    campaign_name: str | None = None


class PhaseStanding(Model, frozen=True, kw_only=True):
    phase: str
    state: PhaseState
    reason: str | None = None
    run_status: RunStatus | None = None
    scheduled_for: datetime | None = None


class PhaseStatus(Model, frozen=True, kw_only=True):
    state: PhaseState
    progress_percentage: float
    run_id: str | None = None
    run_status: RunStatus | None = None
    sequence: int
    reason: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    updated_at: datetime
    accounting: AccountingAnswer | None = None
    earlier_in_doubt: int
    """Items left in doubt by earlier runs that this one retried; not in the accounting."""
    waits_for: HeldFor | None = None
    """What a run that is not released yet waits for: an APPROVE, or capacity."""
    outcome: AccountingAnswer | None = None
    """Of a launch: the final outcome of every message, over this run and the earlier ones that it
    retried.
    """
    runs: int
    """Number of runs that the outcome covers."""
    scheduled_for: datetime | None = None
    """When the run starts sending; null if it is not scheduled."""
    rollout: list[RolloutStepAnswer] = field(default_factory=list)
    """The steps of a launch that has a rollout."""
    blockers: list[BlockerAnswer]
    """Why the current phase is not moving; empty while it moves."""


class PlannedStepAnswer(Model, frozen=True, kw_only=True):
    percent: float
    """Of the audience, earlier steps included."""
    hold_minutes: float
    """How long it is watched before the next step."""


class PolicyAnswer(Model, frozen=True, kw_only=True):
    """A null policy holds nothing back."""

    time_zone: str
    quiet_hours: QuietHoursAnswer | None = None
    sending_window: SendingWindowAnswer | list[SendingWindowAnswer] | None = None
    """Several are alternatives: messages go within any of them."""
    frequency_cap: FrequencyCapAnswer | None = None
    retry: RetryAnswer
    presets: list[str] = field(default_factory=list)
    """Sending hours of a law or a code of conduct, by name."""
    exempt: list[str] = field(default_factory=list)
    """Topics whose transactional messages go at any hour and beyond the cap."""


class PolicyPut(Model, frozen=True, kw_only=True):
    success: bool = True
    time_zone: str
    quiet_hours: QuietHoursAnswer | None = None
    sending_window: SendingWindowAnswer | list[SendingWindowAnswer] | None = None
    """Several are alternatives: messages go within any of them."""
    frequency_cap: FrequencyCapAnswer | None = None
    retry: RetryAnswer
    presets: list[str] = field(default_factory=list)
    """Sending hours of a law or a code of conduct, by name."""
    exempt: list[str] = field(default_factory=list)
    """Topics whose transactional messages go at any hour and beyond the cap."""


class Preview(Model, frozen=True, kw_only=True):
    campaign_id: str
    message_id: str
    variant: str | None = None
    channel: Channel
    recipient_id: str
    address: str | None = None
    from_: str | None = field(name="from", default=None)
    """As the campaign says; otherwise the target's own."""
    reply_to: str | None = None
    subject: str | None = None
    body: str | None = None
    html: bool
    problem: str | None = None
    """Why the message cannot be rendered for this recipient."""
    skipped_because: str | None = None


class PreviewBody(Model, frozen=True, kw_only=True):
    recipient_id: str | None = None
    """Defaults to the first recipient."""
    message_id: str | None = None
    """Defaults to the first message."""
    variant: str | None = None
    """Of a message with variants; defaults to the first."""


class QuietHoursAnswer(Model, frozen=True, kw_only=True):
    from_: str = field(name="from")
    to: str
    channels: list[Channel] | None = None
    """Null means all of them."""


class ReceiptAnswer(Model, frozen=True, kw_only=True):
    id: str
    submission_target: str
    receipt_id: str
    """The provider's own id of the report."""
    event: ReceiptEvent
    reference_id: str | None = None
    """Our reference, if the provider returned it."""
    gateway_message_id: str | None = None
    permanent: bool
    reason: str
    from_: str | None = field(name="from", default=None)
    text: str | None = None
    keyword: OptOutWord | None = None
    """What the reply asks for."""
    occurred_at: datetime | None = None
    received_at: datetime
    matched: bool
    matched_by: MatchedBy | None = None
    outbox_id: str | None = None
    next_look_at: datetime | None = None
    """When it is matched again; null once it is given up."""


class RecipientsAnswer(Model, frozen=True, kw_only=True):
    include_lead_contact: bool
    include_partner: bool
    include_agent: bool
    custom_phones: list[str]
    custom_emails: list[str]


class Reconciled(Model, frozen=True, kw_only=True):
    success: bool = True
    applied: bool
    submission_target: str
    file: ExportFile
    mapping: dict[str, str]
    """The column of each field that was found."""
    statuses: list[ExportStatus]
    counts: ExportCounts
    """What the export says; before it is applied, a plan."""
    resolved: int
    """How many were resolved; 0 unless applied."""
    known_rows: int
    """Rows about messages whose outcome is known."""
    unknown_rows: int
    """Rows that match no message sent by this installation."""
    sample: list[ExportMatchAnswer]
    unknown_sample: list[ExportRowAnswer]
    absence_refused: AbsenceRefused | None = None
    """Why the absence of a message from this export proves nothing."""
    is_all: bool
    """False: there are more doubts; apply it again."""


class Redriven(Model, frozen=True, kw_only=True):
    success: bool = True
    id: str
    sink: str


class RegistryAnswer(Model, frozen=True, kw_only=True):
    targets: list[TargetAnswer]
    warnings: list[RegistryWarning] = field(default_factory=list)
    """After replacing the registry: what workflows will find wrong with it."""


class RegistryWarning(Model, frozen=True, kw_only=True):
    path: str
    message: str


class RehearsalAnswer(Model, frozen=True, kw_only=True):
    """What would follow from an event; nothing was written or sent."""

    trigger: str
    status: EventStatus
    problem: str | None = None
    routes: list[RehearsedRoute]
    messages: list[RehearsedMessageAnswer]
    digests: list[RehearsedDigest]
    not_shown: int
    """Messages and digest entries beyond those shown."""
    sentences: list[str]


class RehearsalBody(Model, frozen=True, kw_only=True):
    """A domain event as it would be emitted; its id does not matter."""

    event_id: str = "dry-run"
    trigger: str
    """What happened: a known name."""
    occurred_at: datetime | None = None
    """When it happened; when it was received, if left out."""
    subject: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Whom it concerns: lead, partner, agent, each with its addresses."""
    variables: dict[str, Any] = field(default_factory=dict)
    """What templates may name."""


class RehearsedDigest(Model, frozen=True, kw_only=True):
    step_id: str
    audience: str
    recipient_id: str
    address: str
    due_at: datetime
    """If the recipient has no open digest yet."""


class RehearsedMessageAnswer(Model, frozen=True, kw_only=True):
    channel: Channel
    audience: str
    step_id: str | None = None
    template: str
    submission_target: str
    recipient_id: str
    address: str | None = None
    due_at: datetime
    waits_for: str | None = None
    skipped_because: str | None = None
    """Why nothing would be sent."""
    subject: str | None = None
    body: str | None = None
    html: bool


class RehearsedRoute(Model, frozen=True, kw_only=True):
    channel: Channel
    audience: str
    decision: Decision
    rule_id: str | None = None
    sender: str | None = None
    why: str | None = None
    items: int = 0
    collected: int = 0
    """How many would be collected in digests."""
    without_address: list[str] = field(default_factory=list)
    """Recipients without an address in the event."""


class RelativeAnswer(Model, frozen=True, kw_only=True):
    path: str
    offset_seconds: float
    if_past: IfPast


class RememberedRepeats(Model, frozen=True, kw_only=True):
    submission_target: str
    remembers_references: str
    items: int


class RepeatsAnswer(Model, frozen=True, kw_only=True):
    """The evidence that nothing was sent twice; if all is empty, it is the ledger alone."""

    remembered: list[RememberedRepeats]
    """Unanswered items called again, as their target's declared memory allows."""
    undeclared: list[UndeclaredRepeats]
    """Items called again without a declared memory: uniqueness is then not proven."""
    disproved: int
    """Items called again on evidence that the first call never arrived."""


class RepointedAnswer(Model, frozen=True, kw_only=True):
    run_id: str
    changed: bool
    targets: list[RepointedTarget]
    success: bool = True


class RepointedTarget(Model, frozen=True, kw_only=True):
    submission_target: str
    from_url: str | None = None
    """Null for other workspaces than the default one."""
    to_url: str | None = None
    """Null for other workspaces than the default one."""
    jobs: int
    """Jobs moved, with their items that no provider can have."""
    kept: int
    """Waiting items that may have arrived, and stay where they were attempted."""
    busy_jobs: int
    """Jobs held by a worker, and therefore not moved yet."""


class ReportedByReceipts(Model, frozen=True, kw_only=True):
    """What providers report about sent messages; it is never part of `holds`."""

    sent: int
    reported: int
    """How many of them have a receipt."""
    coverage_percentage: float
    """`reported` of `sent`; 0 if none was sent."""
    delivery: DeliveryCountsAnswer


class Rerouted(Model, frozen=True, kw_only=True):
    success: bool = True
    event_id: str


class RerunBody(Model, frozen=True, kw_only=True):
    expected_state: PhaseState | None = field(name="expected_state", default=None)
    """Refuse the request unless the phase is in this state."""
    run_request_id: str | None = None
    """Repeating the request with the same ID returns the same run."""
    scope: RerunScope | None = None
    """For those the last run did not reach, or for everyone again; the default is the remainder of
    a partial run.
    """
    confirm: bool = False
    """Required with scope `all`: everyone receives it again."""


class Resolved(Model, frozen=True, kw_only=True):
    success: bool = True
    outbox_id: str
    verdict: DoubtVerdict


class RetryAnswer(Model, frozen=True, kw_only=True):
    """How often a message of a workflow is tried; its target's contract may end it earlier."""

    attempts: int
    first_seconds: float
    factor: float
    cap_seconds: float
    summary: str
    """The same in words. Ignored in requests."""


class RevokedKey(Model, frozen=True, kw_only=True):
    success: bool = True
    id: str
    name: str
    scopes: list[KeyScope]
    created_at: datetime
    revoked_at: datetime | None = None


class RolloutStepAnswer(Model, frozen=True, kw_only=True):
    percent: float
    """Of the audience, earlier steps included."""
    hold_minutes: float
    """How long it is watched before the next step."""
    step: int
    items: int
    """How many messages are sent in this step."""
    state: RolloutState
    released_at: datetime | None = None
    released_by: str | None = None
    """`plan`, or who advanced the rollout."""
    ended_at: datetime | None = None
    """When everything of it had been sent."""
    hold_until: datetime | None = None
    halted_for: list[str]
    """The limits of `pauseOn` that paused the launch during this step."""


class RouteAnswer(Model, frozen=True, kw_only=True):
    channel: Channel
    audience: str
    decision: Decision
    rule_id: str | None = None
    sender: str | None = None
    """The legacy sender used."""
    why: str | None = None
    """Why the rule could not be enqueued."""
    items: int | None = None
    """Number of messages created."""
    collected: int | None = None
    """Number of digest entries created."""
    without_address: list[str] = field(default_factory=list)
    """Recipients without an address in the event; no message is created for them."""


class RuleAnswer(Model, frozen=True, kw_only=True):
    id: str
    trigger: str
    channel: Channel
    audience: str
    enabled: bool
    urgent: bool
    """Ignores quiet hours, sending window and frequency cap."""
    topic: str | None = None
    """What a recipient can opt out of without leaving the channel."""
    transactional: bool
    """Blocked only by opt-outs that include transactional messages."""
    created_at: datetime
    updated_at: datetime


class RuleChangeAnswer(Model, frozen=True, kw_only=True):
    change: ChangeKind
    trigger: str
    channel: Channel
    audience: str
    rule_id: str | None = None
    fields: list[FieldChangeAnswer]
    steps: list[StepChangeAnswer]


class RulePut(Model, frozen=True, kw_only=True):
    success: bool = True
    id: str
    trigger: str
    channel: Channel
    audience: str
    enabled: bool
    urgent: bool
    """Ignores quiet hours, sending window and frequency cap."""
    topic: str | None = None
    """What a recipient can opt out of without leaving the channel."""
    transactional: bool
    """Blocked only by opt-outs that include transactional messages."""
    created_at: datetime
    updated_at: datetime


class RuleWithStepsAnswer(Model, frozen=True, kw_only=True):
    id: str
    trigger: str
    channel: Channel
    audience: str
    enabled: bool
    urgent: bool
    """Ignores quiet hours, sending window and frequency cap."""
    topic: str | None = None
    """What a recipient can opt out of without leaving the channel."""
    transactional: bool
    """Blocked only by opt-outs that include transactional messages."""
    created_at: datetime
    updated_at: datetime
    steps: list[StepAnswer]


class RunAnswer(Model, frozen=True, kw_only=True):
    run_id: str
    campaign_id: str
    phase: str
    channel: str
    status: RunStatus
    retry_of: str | None = None
    """The earlier run whose remaining items this run sends."""
    scheduled_for: datetime
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stopped_at: datetime | None = None
    waits_for: HeldFor | None = None
    """What the run is waiting for before it starts."""
    accounting: AccountingAnswer
    jobs: list[JobsByStatus]
    reasons: list[ItemsByReason]
    held: list[HeldAnswer]
    rollout: list[RolloutStepAnswer] = field(default_factory=list)
    """The steps of a launch that has a rollout."""
    blockers: list[BlockerAnswer]
    """Why the run is not moving; empty while it moves, and when it has ended."""


class RunEventLine(Model, frozen=True, kw_only=True):
    contract_version: str
    """The contract version it was written under."""
    run_id: str
    run_seq: int
    """Increases within the run; there may be gaps."""
    event_type: str
    """Clients must tolerate unknown types."""
    emitted_by: str
    step_id: str | None = None
    logical_attempt_id: str
    """Increases when a job is retried on purpose."""
    engine_attempt_id: str | None = None
    """Increases when a worker is lost."""
    plan_version: str
    idempotency_key: str
    occurred_at: datetime
    payload: dict[str, Any]


class RunExplanation(Model, frozen=True, kw_only=True):
    run_id: str
    sentences: list[str]


class RunLine(Model, frozen=True, kw_only=True):
    run_id: str
    campaign_id: str
    phase: str
    channel: str
    status: RunStatus
    retry_of: str | None = None
    """The earlier run whose remaining items this run sends."""
    scheduled_for: datetime
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stopped_at: datetime | None = None
    waits_for: HeldFor | None = None
    """What the run is waiting for before it starts."""
    accounting: AccountingAnswer


class RunSnapshotAnswer(Model, frozen=True, kw_only=True):
    """Unknown values are omitted."""

    contract_version: str
    run_id: str
    status: SnapshotStatus
    last_event_seq: int
    """The last event included in this snapshot: the watermark."""
    steps: list[StepSnapshotAnswer]
    artifacts: list[dict[str, Any]]
    failed_steps: int
    cancel_requested: bool | None = None
    engine_run_ref: str | None = None
    root_cause: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    total_duration_ms: int | None = None


class RunVariantsAnswer(Model, frozen=True, kw_only=True):
    run_id: str
    rule: WinnerRuleAnswer | None = None
    """Who chooses the variant of the rollout's last step; null if nobody does."""
    messages: list[MessageVariantsAnswer]


class SealAnswer(Model, frozen=True, kw_only=True):
    """The Merkle roots of a run's ledger and receipts, signed."""

    seal: int
    """1 is made at the run's end; later ones have later receipts."""
    ledger_rows: int
    ledger_root: str
    receipts: int
    receipts_root: str
    hash: str
    """SHA-256 of the seal's document, which the signature is for."""
    key_id: str
    signature: str
    """Ed25519, in hex."""
    sealed_at: datetime


class SearchAnswer(Model, frozen=True, kw_only=True):
    query: str
    items: list[HitAnswer]


class SendingWindowAnswer(Model, frozen=True, kw_only=True):
    from_: str = field(name="from")
    to: str
    channels: list[Channel] | None = None
    """Null means all of them."""
    days: list[str]


class SettledDoubts(Model, frozen=True, kw_only=True):
    """Items that were in doubt, by what their last verdict relies on."""

    kind: EvidenceKind
    verdict: str
    """`sent`, `failed`, `resubmit`, or `ask_again`: the call was repeated."""
    source: str
    """The source of the evidence: a submission target, or a person."""
    items: int


class SignalBody(Model, frozen=True, kw_only=True):
    signal: Signal
    step_id: str | None = None
    """The job to retry, for RETRY_STEP."""
    message_id: str | None = None
    """The message whose variant is chosen, for DECIDE."""
    variant: str | None = None
    """The variant that the last step of the rollout is sent, for DECIDE."""
    signal_id: str | None = None
    """Repeating the signal with the same ID returns the same decision."""


class SignalDone(Model, frozen=True, kw_only=True):
    success: bool = True
    run_id: str
    signal: Signal
    signal_id: str
    step_id: str | None = None
    run_seq: int
    """Position of the decision in the run's log."""
    changed: bool
    """False if nothing had to change."""


class StepAnswer(Model, frozen=True, kw_only=True):
    id: str
    rule_id: str
    step_order: int
    enabled: bool
    channel: Channel
    submission_target: str | None = None
    """Null means the registry's only target for the channel, when the event is routed."""
    subject: str | None = None
    body: str
    delay_seconds: float | None = None
    relative_to: RelativeAnswer | None = None
    recipient_config: RecipientsAnswer
    digest_minutes: int | None = None
    topic: str | None = None
    """Null means the topic of its rule."""
    created_at: datetime
    updated_at: datetime


class StepChangeAnswer(Model, frozen=True, kw_only=True):
    change: ChangeKind
    step_order: int
    ordinal: int
    """Its number among the steps with this order, from 1."""
    step_id: str | None = None
    fields: list[FieldChangeAnswer]


class StepCountsAnswer(Model, frozen=True, kw_only=True):
    sent: int
    failed: int
    skipped: int


class StepErrorAnswer(Model, frozen=True, kw_only=True):
    code: str
    message: str
    retryable: bool


class StepPut(Model, frozen=True, kw_only=True):
    success: bool = True
    id: str
    rule_id: str
    step_order: int
    enabled: bool
    channel: Channel
    submission_target: str | None = None
    """Null means the registry's only target for the channel, when the event is routed."""
    subject: str | None = None
    body: str
    delay_seconds: float | None = None
    relative_to: RelativeAnswer | None = None
    recipient_config: RecipientsAnswer
    digest_minutes: int | None = None
    topic: str | None = None
    """Null means the topic of its rule."""
    created_at: datetime
    updated_at: datetime


class StepRetriesAnswer(Model, frozen=True, kw_only=True):
    max_attempts: int
    delay_seconds: int


class StepSnapshotAnswer(Model, frozen=True, kw_only=True):
    step_id: str
    status: StepStatus
    logical_attempt_id: str
    engine_attempt_id: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    artifacts: list[dict[str, Any]]
    error: StepErrorAnswer | None = None
    reason: str | None = None
    outcome: JobOutcome | None = None
    counts: StepCountsAnswer | None = None


class SuppressionAnswer(Model, frozen=True, kw_only=True):
    channel: Channel
    address: str
    topic: str | None = None
    """Null means everything on the channel."""
    reason: str
    source: SuppressionSource
    evidence: str | None = None
    includes_transactional: bool
    created_at: datetime


class SuppressionsBody(Model, frozen=True, kw_only=True):
    channel: Channel
    addresses: list[str]
    reason: str = "opted_out"
    topic: str | None = None
    """Only this topic; without one, everything on the channel."""
    source: SuppressionSource = SuppressionSource("api")
    """How it is known. Bounce, complaint and stop include transactional messages."""
    evidence: str | None = None
    """Evidence, for later reference."""
    include_transactional: bool = False
    """Block transactional messages too."""


class SuppressionsDone(Model, frozen=True, kw_only=True):
    success: bool = True
    channel: Channel
    addresses: int
    """How many of them this changed."""


class TargetAnswer(Model, frozen=True, kw_only=True):
    """A registered contract, and its target's current state."""

    submission_target: str
    gateway_type: str
    gateway_url: str | None = None
    """Null for other workspaces than the default one."""
    mode: str
    policy: str
    max_acceptance_seconds: float | None = None
    max_attempts: int | None = None
    terminal_outcomes: list[str]
    state: TargetStanding | None = None


class TargetControlled(Model, frozen=True, kw_only=True):
    """A target after a control."""

    submission_target: str
    changed: bool
    state: TargetStanding | None = None
    success: bool


class TargetExecution(Model, frozen=True, kw_only=True):
    """An operator's settings; none of them is a contract term, and none is a secret."""

    rate_per_second: float | None = None
    burst: int
    breaker_failures: int
    breaker_seconds: float
    retry_first_seconds: float
    retry_factor: float
    retry_cap_seconds: float
    timeout_seconds: float | None = None
    """Null if the gateway family's default applies."""
    concurrency: int | None = None
    """Null if the gateway family's default applies."""
    fallback: str | None = None
    fallback_when_down: bool
    """Whether items never attempted go to the fallback while the target is down."""
    warm_up: list[int] | None = None
    """The most messages on each of its first days; null if there is no plan."""


class TargetLine(Model, frozen=True, kw_only=True):
    submission_target: str
    gateway_type: str
    gateway_url: str | None = None
    """Null for other workspaces than the default one."""
    mode: str
    policy: str
    max_acceptance_seconds: float | None = None
    max_attempts: int | None = None
    terminal_outcomes: list[str]
    state: TargetStanding | None = None
    channel: Channel
    remembers_references: str
    """How long its provider recognises a reference: `never`, `in_flight`, a duration such as
    `24h`, or `for_good`. Only on that word is a silent call repeated.
    """
    looks_up: bool
    """Whether its provider can be asked what it received."""
    execution: TargetExecution
    open_jobs: int
    """Unfinished jobs of the workspace."""
    in_doubt: int
    """Items of the workspace in doubt."""


class TargetStanding(Model, frozen=True, kw_only=True):
    """A target's current state; null if it has no rate and was never in trouble."""

    door: str
    """Whether calls are allowed: the provider asked to retry later, it cannot be reached, or
    somebody paused it.
    """
    since: datetime | None = None
    """When the door was closed."""
    reason: str | None = None
    """The provider's last error, or what failed."""
    slots: int | None = None
    """How many concurrent calls it accepts, if that is known to be limited."""
    breaker: str
    failures: int
    resume_at: datetime | None = None
    probe_at: datetime | None = None
    paused_by: str | None = None


class TargetsAnswer(Model, frozen=True, kw_only=True):
    targets: list[TargetLine]


class ThroughputAnswer(Model, frozen=True, kw_only=True):
    """When the items of a run ended; a job's are counted together, when it settles."""

    run_id: str
    from_: datetime = field(name="from")
    to: datetime
    bucket_seconds: float
    buckets: list[ThroughputBucket]
    unsettled_items: int
    """In unfinished jobs, and therefore in no bucket."""


class ThroughputBucket(Model, frozen=True, kw_only=True):
    at: datetime
    sent: int
    failed: int
    skipped: int


class TroubleAnswer(Model, frozen=True, kw_only=True):
    doubts: int
    alerts: int
    """Open alerts."""
    dead_letters: int
    """Dead letters not redriven yet."""
    bypasses: int
    """All phase state changes made without their lifecycle event."""
    failed_events: int
    """Domain events that could not be routed."""
    most: int
    """Each figure stops counting at this number."""


class UndeclaredRepeats(Model, frozen=True, kw_only=True):
    submission_target: str
    items: int


class UnsuppressBody(Model, frozen=True, kw_only=True):
    channel: Channel
    addresses: list[str]
    topic: str | None = None
    """Only this topic; without one, everything they opted out of."""


class VariantAnswer(Model, frozen=True, kw_only=True):
    id: str
    subject: str | None = None
    body: str
    script_version: str | None = None
    weight: int


class VariantFiguresAnswer(Model, frozen=True, kw_only=True):
    variant: str
    weight: int
    items: int
    """How many recipients were assigned to it by draw."""
    sent: int
    failed: int
    skipped: int
    deliveries: dict[str, int]
    """What receipts say of what was sent."""
    rates: dict[str, float]
    """The shares of what was sent: `delivered` includes read and answered messages."""


class VerdictBody(Model, frozen=True, kw_only=True):
    verdict: DoubtVerdict
    evidence: str
    """How you know. Kept permanently in the audit log."""
    force: bool = False
    """Resolve it even if the worker that made the call may still be running."""


class VerdictsBody(Model, frozen=True, kw_only=True):
    """One verdict on many: those named, or all that match, or all of the workspace."""

    verdict: DoubtVerdict
    evidence: str
    """How you know. Kept permanently in the audit log."""
    force: bool = False
    """Resolve it even if the worker that made the call may still be running."""
    run_id: str | None = None
    campaign_id: str | None = None
    submission_target: str | None = None
    reason: str | None = None
    settles: Settles | None = None
    ids: list[str] | None = None
    confirm: bool = False
    """Without it, matching items are only counted."""


class WholeEvent(Model, frozen=True, kw_only=True):
    event_id: str
    trigger: str
    occurred_at: datetime
    status: EventStatus
    routes: list[RouteAnswer]
    error: str | None = None
    created_at: datetime
    updated_at: datetime
    subject: dict[str, Any]
    variables: dict[str, Any]
    items: list[EventItemAnswer]


class WinnerRuleAnswer(Model, frozen=True, kw_only=True):
    by: WinnerBy
    rate: WinnerRate | None = None
    """By receipts: which share counts."""
    minimum: int | None = None
    """By receipts: how many of each variant must have been sent."""


class WorkerAnswer(Model, frozen=True, kw_only=True):
    """A server or worker that wrote its row lately, or still holds jobs."""

    worker_id: str
    role: str
    """`worker` processes jobs; `server` only serves the API."""
    host: str
    pid: int
    version: str
    engine: str
    targets: list[str] | None = None
    """What it is limited to; null: everything."""
    mode: str | None = None
    started_at: datetime
    seen_at: datetime
    is_alive: bool
    """False if it has been silent for a while."""
    holds: list[HeldJobsAnswer]


class WorkflowsAnswer(Model, frozen=True, kw_only=True):
    """All rules with their steps, as `PUT /workflows` and `outrider workflow apply` take them."""

    rules: list[dict[str, Any]]
    policies: dict[str, Any] | None = None
    """Null if none was ever set."""
