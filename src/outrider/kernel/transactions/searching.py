"""Search: finds everything that has the given address, id or name.

Every question is answered by an index, so the size of the ledger does not matter.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from outrider.domain.emissions import is_event_id
from outrider.domain.ids import (
    KEY_SEPARATOR,
    CampaignId,
    IdempotencyKey,
    OutboxId,
    RunId,
    Scope,
    intent_key,
    is_uuid,
)
from outrider.domain.people import readings
from outrider.kernel.transactions import domain_events, ledger_items, people
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.person_stories import known
from outrider.kernel.transactions.submissions import intents_by_key
from outrider.limits.people import (
    SEARCH_CAMPAIGNS_LOOKED_THROUGH,
    SEARCH_ITEMS_MAX,
    SEARCH_NAMED_CAMPAIGNS_MAX,
)
from outrider.ports.store import Transaction, ask

_REFERENCE = re.compile(r"[0-9a-f]{64}\Z")


class HitKind(StrEnum):
    PERSON = "person"
    CAMPAIGN = "campaign"
    RUN = "run"
    ITEM = "item"
    EVENT = "event"
    INTENT = "intent"


class Hit(NamedTuple):
    kind: HitKind
    id: str
    title: str
    detail: str | None = None
    at: datetime | None = None


class FoundCampaign(NamedTuple):
    id: CampaignId
    name: str
    created_at: datetime


class FoundRun(NamedTuple):
    id: RunId
    campaign_name: str
    phase: str
    status: str
    created_at: datetime


def campaign(scope: Scope, id: str) -> Transaction[Sequence[FoundCampaign]]:
    rows = yield from ask("campaign_named_by_id", **scope._asdict(), id=id)
    return [FoundCampaign(*row) for row in rows]


def run(scope: Scope, id: str) -> Transaction[Sequence[FoundRun]]:
    rows = yield from ask("run_found", **scope._asdict(), id=id)
    return [FoundRun(*row) for row in rows]


def items_of_provider_message(scope: Scope, words: str) -> Transaction[list[OutboxId]]:
    rows = yield from ask(
        "items_of_provider_message", **scope._asdict(), words=words, most=SEARCH_ITEMS_MAX
    )
    return [OutboxId(row[0]) for row in rows]


def campaigns_named(scope: Scope, words: str) -> Transaction[Sequence[FoundCampaign]]:
    """The newest first."""
    rows = yield from ask(
        "campaigns_named",
        **scope._asdict(),
        words=words.lower(),
        looked=SEARCH_CAMPAIGNS_LOOKED_THROUGH,
        most=SEARCH_NAMED_CAMPAIGNS_MAX,
    )
    return [FoundCampaign(*row) for row in rows]


def find(scope: Scope, words: str) -> Transaction[list[Hit]]:
    hits: list[Hit] = []
    if (yield from known(scope, readings(words))):
        hits.append(Hit(HitKind.PERSON, words, words))
    if is_uuid(words.lower()):
        hits += yield from _by_id(scope, words.lower())
    hits += yield from _by_own_id(scope, words)
    hits += yield from _items(scope, words)
    for each in (yield from campaigns_named(scope, words)):
        hits.append(Hit(HitKind.CAMPAIGN, each.id, each.name, None, each.created_at))
    return list({(each.kind, each.id): each for each in hits}.values())


def _by_id(scope: Scope, id: str) -> Transaction[list[Hit]]:
    hits = [
        Hit(HitKind.CAMPAIGN, each.id, each.name, None, each.created_at)
        for each in (yield from campaign(scope, id))
    ]
    for each in (yield from run(scope, id)):
        detail = f"{each.phase}, {each.status}"
        hits.append(Hit(HitKind.RUN, each.id, each.campaign_name, detail, each.created_at))
    return hits


def _by_own_id(scope: Scope, words: str) -> Transaction[list[Hit]]:
    """Events and intents, by the ids that their senders gave them."""
    hits: list[Hit] = []
    if is_event_id(words):
        found = yield from domain_events.by_event_id(scope, [words])
        for event in found.values():
            detail = f"{event.trigger}, {event.status}"
            hits.append(Hit(HitKind.EVENT, words, words, detail, event.created_at))
    if KEY_SEPARATOR not in words:
        intents = yield from intents_by_key(scope, [intent_key(words)])
        for intent in intents.values():
            detail = f"{intent.submission_target}, {intent.status}"
            hits.append(Hit(HitKind.INTENT, words, words, detail, intent.created_at))
    return hits


def _items(scope: Scope, words: str) -> Transaction[list[Hit]]:
    """By the item's id, its reference, or the id that its provider gave it."""
    ids = list((yield from items_of_provider_message(scope, words)))
    if is_uuid(words.lower()):
        ids.append(OutboxId(words.lower()))
    if _REFERENCE.match(words.lower()):
        found = yield from people.by_keys(scope, [IdempotencyKey(words.lower())])
        ids += [each.id for each in found]
    if not ids:
        return []
    items = yield from ledger_items.items(scope, ids[:SEARCH_ITEMS_MAX])
    return [_item_hit(each) for each in items]


def _item_hit(item: Item) -> Hit:
    outcome = "in doubt" if item.doubted_at else item.status
    detail = f"{item.channel}, {item.submission_target}, {outcome}"
    return Hit(HitKind.ITEM, item.id, item.address or item.recipient_id, detail, item.created_at)
