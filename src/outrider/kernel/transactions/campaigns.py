"""Creating and reading campaigns: definition, immutable assets and the audience, all or nothing."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.campaigns import (
    RATED_FROM_MESSAGES,
    Asset,
    CampaignDefinition,
    Message,
    PauseOn,
    StepRetries,
)
from outrider.domain.errors import NotFound
from outrider.domain.ids import AssetId, CampaignId, RunId, Scope, is_uuid
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.mailbox import USUAL_HEAD, MailHead
from outrider.domain.phases import control_phase
from outrider.domain.purposes import Purpose
from outrider.domain.rollouts import RolloutStep
from outrider.domain.states import Channel, PhaseState
from outrider.domain.times import rfc3339
from outrider.domain.variants import Variant, WinnerBy, WinnerRate, WinnerRule
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Rows, Transaction, ask


class CampaignRecord(NamedTuple):
    id: CampaignId
    name: str
    definition: str
    audience_size: int
    last_sequence: int
    created_at: datetime


class PhaseRecord(NamedTuple):
    phase: str
    state: str
    run_id: str | None
    updated_at: datetime
    last_sequence: int
    reason: str | None
    started_at: datetime | None
    finished_at: datetime | None


def create_campaign(
    scope: Scope,
    campaign_id: CampaignId,
    definition: CampaignDefinition,
    write_audience: Transaction[int],
    ids: IdSource,
    now: datetime,
    actor: str,
) -> Transaction[int]:
    """Write the whole campaign; returns the audience's size. An error leaves nothing behind.

    `write_audience` returns that size; a large audience is stored already, and only closed here.
    """
    owner = scope._asdict()
    yield from ask(
        "insert_campaign",
        **owner,
        id=campaign_id,
        name=definition.name,
        definition=definition_document(definition),
        now=now,
    )
    phases = definition.phases
    yield from ask(
        "insert_phases",
        {"phase": phases, "ordinal": range(len(phases))},
        campaign_id=campaign_id,
        now=now,
    )
    yield from _insert_assets(scope, campaign_id, definition.messages, ids, now)
    size = yield from write_audience
    detail: dict[str, object] = {"recipients": size, "messages": len(definition.messages)}
    entry = AuditEntry(scope, "campaign.created", actor, campaign_id, detail=detail)
    yield from record([entry], ids, now)
    return size


def _insert_assets(
    scope: Scope,
    campaign_id: CampaignId,
    messages: tuple[Message, ...],
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """Each variant is a version of its message."""
    versions = [
        (number, text) for message in messages for number, text in enumerate(message.texts, start=1)
    ]
    messages = tuple(text for _, text in versions)
    yield from ask(
        "insert_assets",
        {
            "id": ids.batch(len(messages)),
            "version": [number for number, _ in versions],
            "message_id": [message.id for message in messages],
            "channel": [message.channel.value for message in messages],
            "submission_target": [message.submission_target for message in messages],
            "subject": [message.subject for message in messages],
            "body": [message.body for message in messages],
            "script_version": [message.script_version for message in messages],
            "topic": [message.purpose.topic for message in messages],
            "transactional": [message.purpose.transactional for message in messages],
            "mail": [_mail_document(message) for message in messages],
            "variant": [message.variant for message in messages],
        },
        **scope._asdict(),
        campaign_id=campaign_id,
        now=now,
    )


def definition_document(definition: CampaignDefinition) -> str:
    """The definition as stored and shown: in the API's format, without the audience."""
    document: dict[str, object] = {
        "name": definition.name,
        "phases": list(definition.phases),
        "messages": [
            {
                "id": message.id,
                "channel": message.channel.value,
                "submissionTarget": message.submission_target,
                "subject": message.subject,
                "body": message.body,
                "scriptVersion": message.script_version,
                **_own_purpose(message, definition),
                **message.head.as_document(),
                **_variants(message),
            }
            for message in definition.messages
        ],
        "scheduledFor": rfc3339(definition.scheduled_for) if definition.scheduled_for else None,
        "batchSize": definition.batch_size,
        "requireApproval": definition.require_approval,
        "topic": definition.purpose.topic,
        "transactional": definition.purpose.transactional,
    }
    if definition.retry_policy:
        document["retryPolicy"] = {
            phase: {"maxAttempts": each.max_attempts, "delaySeconds": each.delay_seconds}
            for phase, each in definition.retry_policy.items()
        }
    if definition.pause_on is not None:
        document["pauseOn"] = {
            "bounceRate": definition.pause_on.bounce_rate,
            "complaintRate": definition.pause_on.complaint_rate,
            "failureRate": definition.pause_on.failure_rate,
            "silenceRate": definition.pause_on.silence_rate,
            "minimumMessages": definition.pause_on.minimum_messages,
        }
    if definition.rollout:
        document["rollout"] = [step.as_document() for step in definition.rollout]
    if definition.winner is not None:
        document["winner"] = definition.winner.as_document()
    if definition.local_launch is not None:
        document["localLaunch"] = definition.local_launch.as_document()
    return msgspec.json.encode(document).decode()


def _own_purpose(message: Message, definition: CampaignDefinition) -> dict[str, object]:
    """What a message says of its purpose that its campaign does not."""
    if message.purpose == definition.purpose:
        return {}
    return {"topic": message.purpose.topic, "transactional": message.purpose.transactional}


def _mail_document(message: Message) -> str | None:
    """What a message says beyond its texts, as its asset keeps it; None: nothing."""
    document = message.head.as_document()
    return msgspec.json.encode(document).decode() if document else None


class _StoredMail(msgspec.Struct, rename="camel"):
    sender: str | None = msgspec.field(default=None, name="from")
    reply_to: str | None = None

    @property
    def head(self) -> MailHead:
        return MailHead(self.sender, self.reply_to)


def _variants(message: Message) -> dict[str, object]:
    if not message.variants:
        return {}
    return {"variants": [each.as_document() for each in message.variants]}


class _StoredVariant(msgspec.Struct, rename="camel"):
    id: str
    body: str
    subject: str | None = None
    script_version: str | None = None
    weight: int = 1

    def variant(self) -> Variant:
        return Variant(self.id, self.body, self.subject, self.script_version, self.weight)


class _StoredWinner(msgspec.Struct, rename="camel"):
    by: str
    rate: str = WinnerRate.DELIVERED.value
    minimum: int = 0

    def rule(self) -> WinnerRule:
        return WinnerRule(WinnerBy(self.by), WinnerRate(self.rate), self.minimum)


class _StoredMessage(msgspec.Struct, rename="camel"):
    id: str
    channel: str
    submission_target: str
    body: str
    subject: str | None = None
    script_version: str | None = None
    topic: str | None = None
    transactional: bool | None = None
    sender: str | None = msgspec.field(default=None, name="from")
    reply_to: str | None = None
    variants: list[_StoredVariant] = []

    def purpose(self, of_campaign: Purpose) -> Purpose:
        if self.transactional is None:
            return of_campaign
        return Purpose(self.topic, self.transactional)


class _StoredRetries(msgspec.Struct, rename="camel"):
    max_attempts: int
    delay_seconds: int = 0


class _StoredPauseOn(msgspec.Struct, rename="camel"):
    bounce_rate: float | None = None
    complaint_rate: float | None = None
    failure_rate: float | None = None
    silence_rate: float | None = None
    minimum_messages: int = RATED_FROM_MESSAGES

    def limits(self) -> PauseOn:
        return PauseOn(
            self.bounce_rate,
            self.complaint_rate,
            self.failure_rate,
            self.silence_rate,
            self.minimum_messages,
        )


class _StoredRolloutStep(msgspec.Struct, rename="camel"):
    percent: float
    hold_minutes: float = 0


class _StoredLocalLaunch(msgspec.Struct, rename="camel"):
    local: str
    fallback_zone: str

    def launch(self) -> LocalLaunch:
        return LocalLaunch(datetime.fromisoformat(self.local), self.fallback_zone)


class _StoredDefinition(msgspec.Struct, rename="camel"):
    name: str
    phases: list[str]
    messages: list[_StoredMessage]
    batch_size: int
    scheduled_for: datetime | None = None
    require_approval: bool = False
    topic: str | None = None
    transactional: bool = False
    retry_policy: dict[str, _StoredRetries] = {}
    pause_on: _StoredPauseOn | None = None
    local_launch: _StoredLocalLaunch | None = None
    rollout: list[_StoredRolloutStep] = []
    winner: _StoredWinner | None = None


def read_local_launch(document: str) -> LocalLaunch:
    return msgspec.json.decode(document, type=_StoredLocalLaunch).launch()


def read_definition(document: str) -> CampaignDefinition:
    """Reads what `definition_document` wrote."""
    stored = msgspec.json.decode(document, type=_StoredDefinition)
    purpose = Purpose(stored.topic, stored.transactional)
    return CampaignDefinition(
        stored.name,
        tuple(stored.phases),
        tuple(
            Message(
                message.id,
                Channel(message.channel),
                message.submission_target,
                message.body,
                message.subject,
                message.script_version,
                message.purpose(purpose),
                MailHead(message.sender, message.reply_to),
                tuple(each.variant() for each in message.variants),
            )
            for message in stored.messages
        ),
        stored.batch_size,
        stored.scheduled_for,
        stored.require_approval,
        purpose,
        {
            phase: StepRetries(each.max_attempts, each.delay_seconds)
            for phase, each in stored.retry_policy.items()
        },
        None if stored.pause_on is None else stored.pause_on.limits(),
        None if stored.local_launch is None else stored.local_launch.launch(),
        tuple(RolloutStep(step.percent, step.hold_minutes) for step in stored.rollout),
        None if stored.winner is None else stored.winner.rule(),
    )


def campaign(scope: Scope, campaign_id: CampaignId) -> Transaction[CampaignRecord]:
    found: Rows = []
    if is_uuid(campaign_id):
        found = yield from ask("campaign_by_id", **scope._asdict(), campaign_id=campaign_id)
    if not found:
        raise NotFound(
            f"there is no campaign {campaign_id}", hint="`outrider campaign list` shows them"
        )
    return CampaignRecord(*found[0])


def last_sequences(
    scope: Scope, campaign_ids: Sequence[CampaignId]
) -> Transaction[dict[CampaignId, int]]:
    """Of all of them; if one is missing or belongs to another workspace, NotFound for all."""
    rows: Rows = []
    if all(is_uuid(campaign_id) for campaign_id in campaign_ids):
        rows = yield from ask("last_sequences", {"id": campaign_ids}, **scope._asdict())
    found = {CampaignId(row[0]): int(row[1]) for row in rows}
    missing = next((each for each in campaign_ids if each not in found), None)
    if missing is not None:
        raise NotFound(
            f"there is no campaign {missing}", hint="`outrider campaign list` shows them"
        )
    return found


def phases_of(campaign_id: CampaignId) -> Transaction[list[PhaseRecord]]:
    rows = yield from ask("phases_of_campaign", campaign_id=campaign_id)
    return [PhaseRecord(*row) for row in rows]


def assets_of(campaign_id: CampaignId) -> Transaction[list[Asset]]:
    rows = yield from ask("assets_of_campaign", campaign_id=campaign_id)
    return [_asset(row) for row in rows]


def asset(asset_id: AssetId) -> Transaction[Asset]:
    rows = yield from ask("asset_by_id", asset_id=asset_id)
    return _asset(rows[0])


def _asset(row: Row) -> Asset:
    asset_id, version, message_id, channel, target, subject, body, script_version, *rest = row
    topic, transactional, mail, variant = rest
    head = USUAL_HEAD if mail is None else msgspec.json.decode(mail, type=_StoredMail).head
    message = Message(
        message_id, Channel(channel), target, body, subject, script_version,
        Purpose(topic, bool(transactional)), head, variant=variant,
    )  # fmt: skip
    return Asset(asset_id, version, message)


def current_run(
    scope: Scope, campaign_id: CampaignId, phase: str | None
) -> Transaction[RunId | None]:
    """The run of a phase; without a name, of the phase that a control applies to."""
    yield from campaign(scope, campaign_id)
    phases = yield from phases_of(campaign_id)
    if phase is None:
        phase = control_phase((each.phase, PhaseState(each.state)) for each in phases)
    found = next((each.run_id for each in phases if each.phase == phase), None)
    return RunId(found) if found else None
