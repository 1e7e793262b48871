"""Whom a domain event names: its parties' addresses and ids, normalised as they are asked for."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from outrider.domain.addressees import FIELDS, recipient_id_of
from outrider.domain.ids import RecipientId
from outrider.domain.people import KINDS, Address, PersonKind
from outrider.domain.recipients import address_kind
from outrider.domain.states import Channel
from outrider.domain.workflows import AGENT, LEAD, PARTNER, DomainEvent

PARTIES = (LEAD, PARTNER, AGENT)
PERSON_KINDS = {kind: person for person, kind in KINDS.items()}


class Reached(NamedTuple):
    """Whom a message of the event is for: the message tells of the event in their stories."""

    channel: Channel
    recipient_id: RecipientId
    address: str | None


def named_without_message(event: DomainEvent, reached: Iterable[Reached]) -> list[Address]:
    told = set()
    for each in reached:
        told.add((PersonKind.RECIPIENT, str(each.recipient_id)))
        kind = PERSON_KINDS.get(address_kind(each.channel))
        if kind is not None and each.address:
            told.add((kind, Address(kind, each.address).key))
    found = {(each.kind, each.key): each for each in _named(event)}
    return [address for key, address in found.items() if key not in told]


def _named(event: DomainEvent) -> Iterator[Address]:
    for name in PARTIES:
        party = event.party(name)
        for kind, (field, normalise) in FIELDS.items():
            given = party.get(field)
            address = normalise(given) if isinstance(given, str) else None
            if address is not None:
                yield Address(PERSON_KINDS[kind], address)
        who = recipient_id_of(party.get("id"), "")
        if who:
            yield Address(PersonKind.RECIPIENT, who)
