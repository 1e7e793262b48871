"""Recipients and their addresses: normalised once on the way in, judged by flags on the way out."""

from collections.abc import Mapping
from email.utils import parseaddr
from enum import IntFlag
from typing import Any, NamedTuple

from outrider.domain.addresses import (
    EMAIL_MAX_CHARACTERS,
    normalise_email,
    normalise_phone,
    normalise_push_token,
)
from outrider.domain.ids import RecipientId
from outrider.domain.states import Channel


class AddressKind(IntFlag):
    """The three kinds of address a recipient can have; a set of them is stored as one number."""

    NONE = 0
    EMAIL = 1
    PHONE = 2
    PUSH_TOKEN = 4


class SkipReason:
    """Why an item was dropped before any call."""

    NO_ADDRESS = "no_address"
    INVALID_ADDRESS = "invalid_address"
    DUPLICATE_ADDRESS = "duplicate_address"
    SUPPRESSED = "suppressed"
    KEY_HELD = "key_held"
    """Another item has its idempotency key: the same action was or is being performed."""
    ACCEPTED_LATE = "accepted_late"


class Recipient(NamedTuple):
    """One audience member, normalised. `invalid` says which of the addresses are invalid."""

    id: RecipientId
    email: str | None = None
    phone: str | None = None
    push_token: str | None = None
    attributes: str = "{}"
    message_id: str | None = None
    invalid: AddressKind = AddressKind.NONE


def address_kind(channel: Channel) -> AddressKind:
    match channel:
        case Channel.EMAIL:
            return AddressKind.EMAIL
        case Channel.SMS | Channel.WHATSAPP | Channel.VOICE:
            return AddressKind.PHONE
        case Channel.PUSH:
            return AddressKind.PUSH_TOKEN
        case Channel.SOCIAL:
            return AddressKind.NONE


def recipient(
    recipient_id: str,
    *,
    email: str | None = None,
    phone: str | None = None,
    push_token: str | None = None,
    attributes: str = "{}",
    message_id: str | None = None,
) -> Recipient:
    """Normalise what was given. A bad address is flagged and kept, escaped, for the record."""
    flags = AddressKind.NONE
    if email and (normal := normalise_email(email)) != email:
        email, flags = normal or _escaped(email), flags if normal else AddressKind.EMAIL
    if phone and (normal := normalise_phone(phone)) != phone:
        phone, flags = normal or _escaped(phone), flags if normal else flags | AddressKind.PHONE
    if push_token and normalise_push_token(push_token) is None:
        push_token, flags = _escaped(push_token), flags | AddressKind.PUSH_TOKEN
    return Recipient(
        RecipientId(recipient_id), email or None, phone or None, push_token or None, attributes,
        message_id, flags,
    )  # fmt: skip


def payload_address(channel: Channel, payload: Mapping[str, Any]) -> str | None:
    """The recipient of a client's own payload, normalised; None where it cannot be determined."""
    match address_kind(channel):
        case AddressKind.EMAIL:
            given = _text(payload, "to")
            # With a display name it is still the same mailbox.
            return given and (normalise_email(given) or normalise_email(parseaddr(given)[1]))
        case AddressKind.PHONE:
            given = _text(payload, "to")
            return given and normalise_phone(given)
        case AddressKind.PUSH_TOKEN:
            given = _text(payload, "token") or _text(payload, "to")
            return given and normalise_push_token(given)
        case _:
            return None


def _text(payload: Mapping[str, Any], name: str) -> str | None:
    found = payload.get(name)
    return found if isinstance(found, str) and found else None


def _escaped(given: str) -> str:
    return given.encode("unicode_escape").decode()[:EMAIL_MAX_CHARACTERS]


def screen(kind: AddressKind, address: str | None, invalid: int, duplicate: int) -> str | None:
    """Why this recipient must not be called on this kind of address, or None if it may."""
    if kind == AddressKind.NONE:
        return None
    if not address:
        return SkipReason.NO_ADDRESS
    if not (invalid or duplicate):
        return None
    # As plain numbers: Flag operators cost more than the rest of this function.
    bit = kind.value
    if invalid & bit:
        return SkipReason.INVALID_ADDRESS
    if duplicate & bit:
        return SkipReason.DUPLICATE_ADDRESS
    return None
