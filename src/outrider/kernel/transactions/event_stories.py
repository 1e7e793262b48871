"""All that is known about a domain event: its items with their attempts, and its digests."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from outrider.domain.ids import OutboxId, Scope
from outrider.kernel.transactions import digests, domain_events, ledger_items
from outrider.kernel.transactions.digests import EventDigest
from outrider.kernel.transactions.domain_events import StoredEvent
from outrider.kernel.transactions.ledger_items import Attempt, Item
from outrider.limits.workflows import EXPLAINED_ITEMS_MAX
from outrider.ports.store import Transaction


class EventStory(NamedTuple):
    """Everything that is known about an event; of its items only those that are shown."""

    event: StoredEvent
    items: Sequence[tuple[Item, Sequence[Attempt]]]
    digests: Sequence[EventDigest]
    not_shown: int = 0


def story(scope: Scope, event_id: str, recipient: str | None, most: int) -> Transaction[EventStory]:
    event = yield from domain_events.event(scope, event_id)
    items = yield from domain_events.items(scope, event.id, most)
    collected = yield from digests.of_events(scope, [event.id], most)
    asked = recipient.lower() if recipient is not None else None
    collected = [each for each in collected if _is_for(asked, each.recipient_id, each.address)]
    chosen = [item.id for item in items if _is_for(asked, item.recipient_id, item.address)]
    chosen += [each.outbox_id for each in collected if each.outbox_id is not None]
    shown = _once(chosen)[:EXPLAINED_ITEMS_MAX]
    whole = yield from ledger_items.items(scope, shown)
    attempts = yield from ledger_items.attempts_of_all(shown)
    explained = [(item, attempts[item.id]) for item in whole]
    return EventStory(
        event, explained, collected[:EXPLAINED_ITEMS_MAX], len(_once(chosen)) - len(shown)
    )


def _is_for(asked: str | None, recipient_id: str, address: str | None) -> bool:
    return asked is None or asked in (recipient_id.lower(), (address or "").lower())


def _once(ids: Iterable[OutboxId]) -> list[OutboxId]:
    return list(dict.fromkeys(ids))
