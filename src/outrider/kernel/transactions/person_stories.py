"""One person's history: all traces are collected with their times only, then one page of them is
read in full. The search is limited; the result says whether a limit was reached.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from outrider.domain.ids import OutboxId, Scope
from outrider.domain.people import Address, PersonKind
from outrider.domain.recipients import recipient
from outrider.domain.suppressions import Suppression
from outrider.domain.times import rfc3339
from outrider.domain.workflows import DomainEventId
from outrider.kernel.transactions import event_people, ledger_items, people
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.people import FoundItem, Membership, OfCampaign
from outrider.kernel.transactions.receipts import StoredReceipt
from outrider.limits.people import PERSON_ADDRESSES_MAX, PERSON_CAMPAIGNS_MAX, PERSON_ITEMS_MAX
from outrider.ports.store import Transaction


class TraceKind(StrEnum):
    ITEM = "item"
    EVENT = "event"
    RECEIPT = "receipt"
    SUPPRESSION = "suppression"


class Position(NamedTuple):
    """Where a trace is in the story; the newest have the greatest."""

    at: str
    kind: str
    id: str


class Trace(NamedTuple):
    """One entry; exactly one of the last four is set, unless it is gone meanwhile."""

    position: Position
    at: datetime
    item: Item | None = None
    campaign: OfCampaign | None = None
    event: StoredEvent | None = None
    receipt: StoredReceipt | None = None
    suppression: Suppression | None = None


class Story(NamedTuple):
    address: str
    kind: PersonKind
    recipient_ids: list[str]
    addresses: list[Address]
    """Others that audiences know of the same recipients."""
    traces: list[Trace]
    has_more: bool
    total: int
    complete: bool


@dataclass
class _Collected:
    kinds: list[PersonKind] = field(default_factory=list)
    members: list[Membership] = field(default_factory=list)
    items: dict[OutboxId, FoundItem] = field(default_factory=dict)
    receipts: dict[str, datetime] = field(default_factory=dict)
    suppressions: dict[str, Suppression] = field(default_factory=dict)
    named_in: list[DomainEventId] = field(default_factory=list)
    """Events without a message to this person."""
    events: dict[str, StoredEvent] = field(default_factory=dict)
    complete: bool = True

    @property
    def is_empty(self) -> bool:
        return not (self.members or self.items or self.receipts or self.suppressions)

    def note(self, address: Address, found: Sequence[object], most: int) -> None:
        if found and address.kind not in self.kinds:
            self.kinds.append(address.kind)
        self.complete = self.complete and len(found) < most


def known(scope: Scope, tried: Sequence[Address]) -> Transaction[bool]:
    """Whether there is any trace of this person; the first one found is enough."""
    for address in tried:
        if (yield from people.memberships(scope, address, 1)):
            return True
        if (yield from people.single_items(scope, address, 1)):
            return True
        if (yield from event_people.naming(scope, address, 1)):
            return True
        if address.channels and (yield from people.suppressions_of(scope, address)):
            return True
        if address.channels and (yield from people.replies(scope, address, 1)):
            return True
    return False


def story(
    scope: Scope, tried: Sequence[Address], most: int, before: Position | None
) -> Transaction[Story]:
    found = _Collected()
    for address in tried:
        yield from _collect(scope, address, found)
    found.complete = found.complete and (yield from people.all_looked_through(scope))
    others = _addresses(found.members)
    kind = found.kinds[0] if found.kinds else _likely(tried)
    if kind is PersonKind.RECIPIENT:
        # A recipient id itself has no opt-outs or replies; its addresses do.
        for address in others[:PERSON_ADDRESSES_MAX]:
            yield from _of_address(scope, address, found)
    for receipt in (yield from people.receipts_of(list(found.items))):
        found.receipts.setdefault(receipt.id, receipt.at)
    event_ids = [each.domain_event_id for each in found.items.values() if each.domain_event_id]
    for event in (yield from people.events(scope, [*event_ids, *found.named_in])):
        found.events[event.id] = event
    positions = _positions(found)
    following = [each for each in positions if before is None or each < before]
    page = following[:most]
    return Story(
        next((each.text for each in tried if each.kind is kind), tried[0].text),
        kind,
        list(dict.fromkeys(each.recipient_id for each in found.members)),
        [each for each in others if each.key not in {one.key for one in tried}],
        (yield from _hydrated(scope, page, found)),
        len(following) > most,
        len(positions),
        found.complete,
    )


def _likely(tried: Sequence[Address]) -> PersonKind:
    """What a text of which nothing is known is called: most look like a push token too."""
    kind = tried[0].kind
    return PersonKind.RECIPIENT if kind is PersonKind.PUSH_TOKEN else kind


def _collect(scope: Scope, address: Address, found: _Collected) -> Transaction[None]:
    members = yield from people.memberships(scope, address)
    found.note(address, members, PERSON_CAMPAIGNS_MAX)
    found.members += members
    items = yield from people.campaign_items(scope, address, members)
    single = yield from people.single_items(scope, address)
    found.note(address, single, PERSON_ITEMS_MAX)
    found.items.update((each.id, each) for each in (*items, *single))
    named_in = yield from event_people.naming(scope, address)
    found.note(address, named_in, PERSON_ITEMS_MAX)
    found.named_in += named_in
    yield from _of_address(scope, address, found)


def _of_address(scope: Scope, address: Address, found: _Collected) -> Transaction[None]:
    """Opt-outs and replies."""
    if not address.channels:
        return
    suppressed = yield from people.suppressions_of(scope, address)
    found.note(address, suppressed, PERSON_ITEMS_MAX)
    for each in suppressed:
        found.suppressions[f"{each.channel}:{each.address}:{each.topic or ''}"] = each
    replies = yield from people.replies(scope, address)
    found.note(address, replies, PERSON_ITEMS_MAX)
    found.receipts.update((each.id, each.at) for each in replies)


def _addresses(members: Iterable[Membership]) -> list[Address]:
    """The valid ones, each once."""
    chosen: dict[tuple[PersonKind, str], Address] = {}
    for each in members:
        person = recipient(
            each.recipient_id, email=each.email, phone=each.phone, push_token=each.push_token
        )
        if person.invalid:
            continue
        for kind, text in (
            (PersonKind.EMAIL, person.email),
            (PersonKind.PHONE, person.phone),
            (PersonKind.PUSH_TOKEN, person.push_token),
        ):
            if text:
                address = Address(kind, text)
                chosen.setdefault((kind, address.key), address)
    return list(chosen.values())


def _positions(found: _Collected) -> list[Position]:
    dated: list[tuple[datetime, TraceKind, str]] = [
        *((each.created_at, TraceKind.ITEM, id) for id, each in found.items.items()),
        *((each.created_at, TraceKind.EVENT, id) for id, each in found.events.items()),
        *((at, TraceKind.RECEIPT, id) for id, at in found.receipts.items()),
        *((each.created_at, TraceKind.SUPPRESSION, id) for id, each in found.suppressions.items()),
    ]
    return sorted((Position(_sortable(at), kind.value, id) for at, kind, id in dated), reverse=True)


def _sortable(at: datetime) -> str:
    """RFC 3339 with all six digits: as text, a whole second would come after its fractions."""
    return rfc3339(at.replace(microsecond=0)).replace("Z", f".{at.microsecond:06}Z")


def _hydrated(
    scope: Scope, page: Sequence[Position], found: _Collected
) -> Transaction[list[Trace]]:
    def ids(kind: TraceKind) -> list[str]:
        return [each.id for each in page if each.kind == kind]

    wanted = [OutboxId(id) for id in ids(TraceKind.ITEM)]
    whole = (yield from ledger_items.items(scope, wanted)) if wanted else []
    items = {each.id: each for each in whole}
    campaigns = yield from people.campaigns_of_runs(each.run_id for each in whole)
    read = yield from people.receipts_by_id(scope, ids(TraceKind.RECEIPT))
    receipts = {each.id: each for each in read}
    traces = [_trace(each, found, items, campaigns, receipts) for each in page]
    return [each for each in traces if each is not None]


def _trace(
    position: Position,
    found: _Collected,
    items: Mapping[OutboxId, Item],
    campaigns: Mapping[str, OfCampaign],
    receipts: Mapping[str, StoredReceipt],
) -> Trace | None:
    match TraceKind(position.kind):
        case TraceKind.ITEM:
            item = items.get(OutboxId(position.id))
            if item is None:
                return None
            of = campaigns.get(item.run_id) if item.run_id else None
            return Trace(position, item.created_at, item=item, campaign=of)
        case TraceKind.RECEIPT:
            receipt = receipts.get(position.id)
            if receipt is None:
                return None
            return Trace(position, found.receipts[position.id], receipt=receipt)
        case TraceKind.EVENT:
            event = found.events[position.id]
            return Trace(position, event.created_at, event=event)
        case TraceKind.SUPPRESSION:
            suppression = found.suppressions[position.id]
            return Trace(position, suppression.created_at, suppression=suppression)
