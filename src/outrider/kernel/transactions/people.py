"""One person's traces: audience memberships, items, receipts, opt-outs and events.

Items of campaigns are found by their keys, which follow from the runs of the campaigns that a
person is a member of: an index of the ledger by address would cost every message.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, assert_never

from outrider.domain.address_pages import MIXED_BUCKET, bucket_of, fingerprint, offsets_in
from outrider.domain.batches import windows
from outrider.domain.campaigns import LAUNCH
from outrider.domain.ids import (
    KEY_SEPARATOR,
    AssetId,
    CampaignId,
    IdempotencyKey,
    OutboxId,
    RunId,
    Scope,
    item_keys,
)
from outrider.domain.people import KINDS, Address, PersonKind
from outrider.domain.recipients import AddressKind, address_kind
from outrider.domain.states import Channel
from outrider.domain.suppressions import Suppression, SuppressionSource
from outrider.domain.times import rfc3339
from outrider.domain.workflows import DomainEventId
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.kernel.transactions.receipts import StoredReceipt, stored
from outrider.limits.people import (
    PERSON_CAMPAIGNS_LOOKED_THROUGH,
    PERSON_CAMPAIGNS_MAX,
    PERSON_ITEMS_MAX,
    PERSON_KEYS_WINDOW,
    PERSON_PAGES_MAX,
)
from outrider.ports.store import Transaction, Window, ask


class Membership(NamedTuple):
    campaign_id: CampaignId
    recipient_id: str
    email: str | None
    phone: str | None
    push_token: str | None

    def address_key(self, kind: PersonKind) -> str | None:
        """In the form that all spellings share."""
        match kind:
            case PersonKind.EMAIL:
                return self.email and self.email.lower()
            case PersonKind.PHONE:
                return self.phone and self.phone.lower()
            case PersonKind.PUSH_TOKEN:
                return self.push_token
            case PersonKind.RECIPIENT:
                return self.recipient_id
            case _:
                assert_never(kind)


class FoundItem(NamedTuple):
    id: OutboxId
    created_at: datetime
    domain_event_id: DomainEventId | None


class Dated(NamedTuple):
    id: str
    at: datetime


class OfCampaign(NamedTuple):
    campaign_id: CampaignId
    name: str


def memberships(
    scope: Scope, address: Address, most: int = PERSON_CAMPAIGNS_MAX
) -> Transaction[list[Membership]]:
    """In the newest audiences first."""
    if address.kind is not PersonKind.RECIPIENT:
        return (yield from _members_with(scope, address, most))
    rows = yield from ask(
        "members_by_recipient",
        **scope._asdict(),
        address=address.key,
        campaigns=PERSON_CAMPAIGNS_LOOKED_THROUGH,
        most=most,
    )
    return [Membership(*row) for row in rows]


def _members_with(scope: Scope, address: Address, most: int) -> Transaction[list[Membership]]:
    """Fingerprints say where in an audience an address may be; the members say whether it is."""
    mark = fingerprint(address.key)
    rows = yield from ask(
        "pages_with_address",
        **scope._asdict(),
        fingerprint=mark.hex(),
        bucket=bucket_of(mark),
        mixed=MIXED_BUCKET,
        campaigns=PERSON_CAMPAIGNS_LOOKED_THROUGH,
        most=PERSON_PAGES_MAX,
    )
    places = [
        (campaign_id, first_position + offset)
        for campaign_id, first_position, entries in rows
        for offset in offsets_in(bytes.fromhex(entries), mark)
    ]
    found: list[Membership] = []
    for window in windows(list(dict.fromkeys(places)), PERSON_KEYS_WINDOW):
        campaign_ids, positions = zip(*window, strict=True)
        given: Window = {"campaign_id": campaign_ids, "position": positions}
        members = [Membership(*row) for row in (yield from ask("members_at", given))]
        found += [each for each in members if each.address_key(address.kind) == address.key]
    # Ids begin with the time at which they were made.
    return sorted(found, key=lambda each: each.campaign_id, reverse=True)[:most]


def all_looked_through(scope: Scope) -> Transaction[bool]:
    """Whether no campaign was too old to be looked through."""
    beyond = yield from ask(
        "has_campaigns_beyond", **scope._asdict(), campaigns=PERSON_CAMPAIGNS_LOOKED_THROUGH
    )
    return not beyond


def campaign_items(
    scope: Scope, address: Address, members: Sequence[Membership]
) -> Transaction[list[FoundItem]]:
    """What campaigns recorded for these members, on the channels of this address."""
    campaigns = list(dict.fromkeys(each.campaign_id for each in members))
    if not campaigns:
        return []
    rows = yield from ask("launch_messages", {"id": campaigns}, phase=LAUNCH)
    recipients: dict[str, list[str]] = {}
    for each in members:
        if KEY_SEPARATOR not in each.recipient_id:
            recipients.setdefault(each.campaign_id, []).append(each.recipient_id)
    wanted = KINDS.get(address.kind)
    keys: list[IdempotencyKey] = []
    for campaign_id, run_id, scheduled_for, asset_id, name, target, script_version in rows:
        channel = Channel(name)
        kind = address_kind(channel)
        # A post has no recipient, so it belongs to no person.
        if kind is AddressKind.NONE or (wanted is not None and kind is not wanted):
            continue
        keys += item_keys(
            channel, RunId(run_id), recipients.get(campaign_id, []), AssetId(asset_id), target,
            script_version, rfc3339(scheduled_for),
        )  # fmt: skip
    return (yield from by_keys(scope, keys))


def by_keys(scope: Scope, keys: Sequence[IdempotencyKey]) -> Transaction[list[FoundItem]]:
    found: list[FoundItem] = []
    for first in range(0, len(keys), PERSON_KEYS_WINDOW):
        window = {"key": keys[first : first + PERSON_KEYS_WINDOW]}
        rows = yield from ask("items_of_keys", window, **scope._asdict())
        found += [FoundItem(*row) for row in rows]
    return found


def single_items(
    scope: Scope, address: Address, most: int = PERSON_ITEMS_MAX
) -> Transaction[list[FoundItem]]:
    """Messages of workflows, and intents."""
    given = {**scope._asdict(), "address": address.text, "most": most}
    if address.kind is PersonKind.RECIPIENT:
        rows = list((yield from ask("workflow_items_of_recipient", **given)))
    else:
        rows = list((yield from ask("intents_to", **given)))
        for channel in address.channels:
            rows += yield from ask("workflow_items_to", **given, channel=channel.value)
    return [FoundItem(*row) for row in rows]


def replies(
    scope: Scope, address: Address, most: int = PERSON_ITEMS_MAX
) -> Transaction[list[Dated]]:
    """Receipts that this address sent itself, matched or not."""
    found: list[Dated] = []
    for spelt in dict.fromkeys((address.text, address.key)):
        rows = yield from ask("receipts_from", **scope._asdict(), address=spelt, most=most)
        found += [Dated(*row) for row in rows]
    return found


def receipts_of(outbox_ids: Sequence[OutboxId]) -> Transaction[list[Dated]]:
    rows = (yield from ask("receipts_of_items", {"id": outbox_ids})) if outbox_ids else ()
    return [Dated(*row) for row in rows]


def receipts_by_id(scope: Scope, ids: Sequence[str]) -> Transaction[list[StoredReceipt]]:
    return stored((yield from ask("receipts_by_id", {"id": ids}, **scope._asdict())) if ids else ())


def suppressions_of(scope: Scope, address: Address) -> Transaction[list[Suppression]]:
    window = {"channel": [channel.value for channel in address.channels]}
    rows = yield from ask(
        "suppressions_of_address", window, **scope._asdict(), address=address.text
    )
    return [
        Suppression(
            channel, spelt, topic or None, reason, SuppressionSource(source), evidence,
            bool(includes_transactional), created_at,
        )
        for channel, spelt, topic, reason, source, evidence, includes_transactional, created_at
        in rows
    ]  # fmt: skip


def events(scope: Scope, ids: Iterable[DomainEventId]) -> Transaction[list[StoredEvent]]:
    window = {"id": list(dict.fromkeys(ids))}
    rows = (
        (yield from ask("domain_events_by_id", window, **scope._asdict())) if window["id"] else ()
    )
    return [StoredEvent(*row) for row in rows]


def campaigns_of_runs(run_ids: Iterable[str | None]) -> Transaction[dict[str, OfCampaign]]:
    window = {"id": list(dict.fromkeys(each for each in run_ids if each is not None))}
    rows = (yield from ask("campaigns_of_runs", window)) if window["id"] else ()
    return {row[0]: OfCampaign(CampaignId(row[1]), row[2]) for row in rows}
