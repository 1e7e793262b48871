"""Creating and reading campaigns: definition, immutable assets and the audience, all or nothing."""

from collections.abc import Callable, Iterable
from datetime import datetime
from itertools import islice
from typing import NamedTuple

import msgspec

from outrider.domain.campaigns import Asset, CampaignDefinition, Message
from outrider.domain.errors import InvalidInput, NotFound
from outrider.domain.ids import AssetId, CampaignId, Scope, is_uuid
from outrider.domain.recipients import Recipient
from outrider.domain.states import Channel
from outrider.domain.times import rfc3339
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Rows, Transaction, ask
from outrider.settings import IMPORT_WINDOW_ITEMS, RECIPIENTS_MAX


class CampaignRecord(NamedTuple):
    id: CampaignId
    name: str
    definition: str
    audience_size: int
    last_sequence: int
    created_at: datetime


class CampaignLine(NamedTuple):
    """One line of a list of campaigns."""

    id: CampaignId
    name: str
    audience_size: int
    created_at: datetime
    launch_state: str | None


class PhaseRecord(NamedTuple):
    phase: str
    state: str
    run_id: str | None
    updated_at: datetime


def create_campaign(
    scope: Scope,
    campaign_id: CampaignId,
    definition: CampaignDefinition,
    recipients: Iterable[Recipient],
    ids: IdSource,
    now: datetime,
    actor: str,
    progress: Callable[[int], None],
) -> Transaction[int]:
    """Write the whole campaign; returns the audience's size. A mistake midway leaves nothing."""
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
    size = yield from _insert_members(campaign_id, recipients, progress)
    yield from ask("mark_duplicates", campaign_id=campaign_id)
    yield from ask("set_audience_size", campaign_id=campaign_id, size=size)
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
    yield from ask(
        "insert_assets",
        {
            "id": ids.batch(len(messages)),
            "message_id": [message.id for message in messages],
            "channel": [message.channel.value for message in messages],
            "submission_target": [message.submission_target for message in messages],
            "subject": [message.subject for message in messages],
            "body": [message.body for message in messages],
            "script_version": [message.script_version for message in messages],
        },
        **scope._asdict(),
        campaign_id=campaign_id,
        now=now,
    )


def _insert_members(
    campaign_id: CampaignId, recipients: Iterable[Recipient], progress: Callable[[int], None]
) -> Transaction[int]:
    stream = iter(recipients)
    size = 0
    while window := list(islice(stream, IMPORT_WINDOW_ITEMS)):
        yield from ask(
            "insert_members",
            {
                "position": range(size, size + len(window)),
                "recipient_id": [member.id for member in window],
                "email": [member.email for member in window],
                "phone": [member.phone for member in window],
                "push_token": [member.push_token for member in window],
                "attributes": [member.attributes for member in window],
                "message_id": [member.message_id for member in window],
                "invalid": [int(member.invalid) for member in window],
            },
            campaign_id=campaign_id,
        )
        size += len(window)
        if size > RECIPIENTS_MAX:
            raise InvalidInput(
                f"an audience has at most {RECIPIENTS_MAX:,} recipients",
                hint="split the audience over several campaigns",
            )
        progress(size)
    return size


def definition_document(definition: CampaignDefinition) -> str:
    """The definition as it is stored and shown: the API's own words, without the audience."""
    document = {
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
            }
            for message in definition.messages
        ],
        "scheduledFor": rfc3339(definition.scheduled_for) if definition.scheduled_for else None,
        "batchSize": definition.batch_size,
        "requireApproval": definition.require_approval,
    }
    return msgspec.json.encode(document).decode()


def campaign(scope: Scope, campaign_id: CampaignId) -> Transaction[CampaignRecord]:
    found: Rows = []
    if is_uuid(campaign_id):
        found = yield from ask("campaign_by_id", **scope._asdict(), campaign_id=campaign_id)
    if not found:
        raise NotFound(
            f"there is no campaign {campaign_id}", hint="`outrider campaign list` shows them"
        )
    return CampaignRecord(*found[0])


def campaigns_page(scope: Scope, before: str, most: int) -> Transaction[list[CampaignLine]]:
    rows = yield from ask("campaigns_page", **scope._asdict(), before=before, most=most)
    return [CampaignLine(*row) for row in rows]


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
    asset_id, version, message_id, channel, target, subject, body, script_version = row
    message = Message(message_id, Channel(channel), target, body, subject, script_version)
    return Asset(asset_id, version, message)
