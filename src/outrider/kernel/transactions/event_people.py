"""Whom domain events name that made no message to them: so that the events are in their stories."""

from collections.abc import Sequence

from outrider.domain.ids import Scope
from outrider.domain.people import Address
from outrider.domain.workflows import DomainEventId
from outrider.limits.people import PERSON_ITEMS_MAX
from outrider.ports.store import Transaction, Window, ask

Named = tuple[DomainEventId, Address]


def note(scope: Scope, named: Sequence[Named]) -> Transaction[None]:
    if not named:
        return
    # A fixed order: two routers cannot deadlock over the same events.
    ordered = sorted(named, key=lambda each: (each[1].kind, each[1].key, each[0]))
    window: Window = {
        "kind": [address.kind.value for _, address in ordered],
        "address": [address.key for _, address in ordered],
        "id": [event_id for event_id, _ in ordered],
    }
    yield from ask("note_event_people", window, workspace_id=scope.workspace_id)


def naming(
    scope: Scope, address: Address, most: int = PERSON_ITEMS_MAX
) -> Transaction[list[DomainEventId]]:
    """The newest first."""
    rows = yield from ask(
        "events_naming", workspace_id=scope.workspace_id, kind=address.kind.value,
        address=address.key, most=most,
    )  # fmt: skip
    return [DomainEventId(row[0]) for row in rows]
