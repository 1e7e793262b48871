"""Who gets a workflow's message: the recipient matrix, resolved for one event and one channel.

No recipient is dropped silently: one with a bad address is returned with the reason, and one
without an address is listed, though it gets no item.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from outrider.domain.addresses import (
    EMAIL_MAX_CHARACTERS,
    Normaliser,
    normalise_email,
    normalise_phone,
    normalise_push_token,
)
from outrider.domain.ids import KEY_SEPARATOR, RecipientId
from outrider.domain.recipients import AddressKind, SkipReason, address_kind
from outrider.domain.states import Channel
from outrider.domain.workflows import DomainEvent, RecipientConfig, parties_of

RECIPIENT_ID_MAX_CHARACTERS = 200
TIME_ZONE_MAX_CHARACTERS = 64

FIELDS: dict[AddressKind, tuple[str, Normaliser]] = {
    AddressKind.EMAIL: ("email", normalise_email),
    AddressKind.PHONE: ("phone", normalise_phone),
    AddressKind.PUSH_TOKEN: ("pushToken", normalise_push_token),
}
"""Where a party keeps each kind of address."""


class Addressee(NamedTuple):
    """One recipient of a step. `skip` says why no message is sent to it."""

    recipient_id: RecipientId
    address: str | None
    skip: str | None = None
    time_zone: str | None = None


class ResolvedRecipients(NamedTuple):
    """The recipients a step names. A party without an address on the channel gets no message and no
    record of one."""

    to: list[Addressee]
    without_address: list[RecipientId]


def addressed(config: RecipientConfig, channel: Channel, event: DomainEvent) -> ResolvedRecipients:
    found = addressees(config, channel, event)
    absent = [each.recipient_id for each in found if each.skip == SkipReason.NO_ADDRESS]
    return ResolvedRecipients(
        [each for each in found if each.skip != SkipReason.NO_ADDRESS], absent
    )


def addressees(config: RecipientConfig, channel: Channel, event: DomainEvent) -> list[Addressee]:
    """Each address once, whatever its spelling; parties first, then custom recipients."""
    kind = address_kind(channel)
    if kind is AddressKind.NONE:
        return [Addressee(RecipientId("public"), None)]
    _, normalise = FIELDS[kind]
    chosen: list[Addressee] = []
    seen: set[str] = set()
    for who, given, zone in _candidates(config, kind, event):
        if not given:
            chosen.append(Addressee(who, None, SkipReason.NO_ADDRESS, zone))
            continue
        address = normalise(given)
        if address is None:
            shown = given.encode("unicode_escape").decode()[:EMAIL_MAX_CHARACTERS]
            chosen.append(Addressee(who, shown, SkipReason.INVALID_ADDRESS, zone))
        elif address_key(kind, address) not in seen:
            seen.add(address_key(kind, address))
            chosen.append(Addressee(who, address, None, zone))
    return chosen


def address_key(kind: AddressKind, address: str) -> str:
    """The form that all spellings of an address share. Push tokens are case-sensitive."""
    return address if kind is AddressKind.PUSH_TOKEN else address.lower()


def _candidates(
    config: RecipientConfig, kind: AddressKind, event: DomainEvent
) -> Iterator[tuple[RecipientId, str | None, str | None]]:
    field, _ = FIELDS[kind]
    for name in parties_of(config):
        party = event.party(name)
        zone = _text(party.get("timeZone"))
        given = _text(party.get(field))
        yield (
            recipient_id_of(party.get("id"), name),
            given,
            (zone or "")[:TIME_ZONE_MAX_CHARACTERS] or None,
        )
    for custom in _custom(config, kind):
        yield recipient_id_of(custom, "custom"), custom, None


def _custom(config: RecipientConfig, kind: AddressKind) -> Iterable[str]:
    if kind is AddressKind.EMAIL:
        return config.custom_emails
    return config.custom_phones if kind is AddressKind.PHONE else ()


def recipient_id_of(given: Any, otherwise: str) -> RecipientId:
    """The party's own id where it is usable, else its role in the event."""
    text = str(given) if isinstance(given, (str, int)) and not isinstance(given, bool) else ""
    good = text and text.isprintable() and KEY_SEPARATOR not in text
    return RecipientId(text[:RECIPIENT_ID_MAX_CHARACTERS] if good else otherwise)


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) else None
