"""One person, as queried: by an address of any kind, or by a recipient id.

The text may be more than one of them (an e-mail address used as recipient id), so all are tried.
"""

from enum import StrEnum
from typing import NamedTuple

from outrider.domain.addresses import normalise_email, normalise_phone, normalise_push_token
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.recipients import AddressKind, address_kind
from outrider.domain.states import Channel

PERSON_MAX_CHARACTERS = 4_096


class PersonKind(StrEnum):
    EMAIL = "email"
    PHONE = "phone"
    PUSH_TOKEN = "push_token"
    RECIPIENT = "recipient"


KINDS = {
    PersonKind.EMAIL: AddressKind.EMAIL,
    PersonKind.PHONE: AddressKind.PHONE,
    PersonKind.PUSH_TOKEN: AddressKind.PUSH_TOKEN,
}


class Address(NamedTuple):
    kind: PersonKind
    text: str
    """Normalised, as it is stored."""

    @property
    def key(self) -> str:
        """The form that all spellings share. Push tokens and recipient ids are case-sensitive."""
        return self.text.lower() if self.kind in _CASELESS else self.text

    @property
    def channels(self) -> list[Channel]:
        """Where messages to it are sent; none for a recipient id, which is no address."""
        kind = KINDS.get(self.kind, AddressKind.NONE)
        return [channel for channel in Channel if kind and address_kind(channel) is kind]


_CASELESS = frozenset({PersonKind.EMAIL, PersonKind.PHONE})


def readings(given: str) -> list[Address]:
    """What the text can be, the most likely first. A recipient id can look like anything."""
    text = given.strip()
    if not text or len(text) > PERSON_MAX_CHARACTERS or not text.isprintable():
        raise InvalidInput(
            "this is not an address or recipient ID",
            [Problem("address", "should be an email address, phone number, push token or ID")],
        )
    email, phone = normalise_email(text), normalise_phone(text)
    found = []
    # An invalid address is kept as it was given, with the items that were skipped because of it.
    if email or "@" in text:
        found.append(Address(PersonKind.EMAIL, email or text))
    if phone or text.startswith("+"):
        found.append(Address(PersonKind.PHONE, phone or text))
    if not (email or phone) and normalise_push_token(text):
        found.append(Address(PersonKind.PUSH_TOKEN, text))
    found.append(Address(PersonKind.RECIPIENT, text))
    return found
