"""Recipients and their addresses: normalised once on the way in, judged by flags on the way out.

Addresses are checked for syntax only; whether a domain receives mail is for a validation phase.
"""

import re
from collections.abc import Callable, Mapping
from email.utils import parseaddr
from enum import IntFlag
from typing import Any, NamedTuple

from outrider.domain.ids import RecipientId
from outrider.domain.states import Channel

EMAIL_MAX_CHARACTERS = 254
PUSH_TOKEN_MAX_CHARACTERS = 4_096


class AddressKind(IntFlag):
    """The three kinds of address a recipient can have; sets of them travel as one number."""

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
    """Another item has its idempotency key: what it would do was or is being done."""
    ACCEPTED_LATE = "accepted_late"


class Recipient(NamedTuple):
    """One audience member, normalised. `invalid` says which of the addresses are no good."""

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


_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LOCAL_PART = rf"{_ATOM}(?:\.{_ATOM})*"


def _domain_part(letters: str) -> str:
    label = rf"[{letters}](?:[{letters}-]{{0,61}}[{letters}])?"
    return rf"{label}(?:\.{label})+\Z"


_LOCAL = re.compile(rf"{_LOCAL_PART}\Z")
_DOMAIN = re.compile(_domain_part("A-Za-z0-9"))
_NORMAL = re.compile(rf"(?=[^@]{{1,64}}@){_LOCAL_PART}@{_domain_part('a-z0-9')}")
"""An address that is as it should be, found at half the price."""
_E164 = re.compile(r"\+[1-9][0-9]{6,14}\Z")
_PHONE_PUNCTUATION = str.maketrans("", "", " ().-")
_TOKEN = re.compile(r"[\x21-\x7e]+\Z")


def normalise_email(given: str) -> str | None:
    """The address with its domain in lower case, or None where it cannot be one.

    Strictness is a safety matter: a CR or LF that reaches an SMTP command adds a recipient.
    """
    if len(given) <= EMAIL_MAX_CHARACTERS and _NORMAL.match(given):
        return given
    local, at, domain = given.strip(" ").rpartition("@")
    if not at or len(local) > 64 or len(given) > EMAIL_MAX_CHARACTERS or not _LOCAL.match(local):
        return None
    try:
        domain = domain.encode("idna").decode() if not domain.isascii() else domain
    except UnicodeError:
        return None
    return f"{local}@{domain.lower()}" if _DOMAIN.match(domain) else None


def normalise_phone(given: str) -> str | None:
    """E.164, or None. National numbers are refused: guessing a country would call a stranger."""
    compact = given.translate(_PHONE_PUNCTUATION)
    return compact if _E164.match(compact) else None


def normalise_push_token(given: str) -> str | None:
    return given if len(given) <= PUSH_TOKEN_MAX_CHARACTERS and _TOKEN.match(given) else None


Normaliser = Callable[[str], str | None]


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
    """Whom a client's own payload is for, normalised; None where it cannot be told."""
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
    # As plain numbers: the operators of a Flag cost more than the rest of this function.
    bit = kind.value
    if invalid & bit:
        return SkipReason.INVALID_ADDRESS
    if duplicate & bit:
        return SkipReason.DUPLICATE_ADDRESS
    return None
