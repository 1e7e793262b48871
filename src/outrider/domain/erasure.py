"""Erasing a person: under which addresses they are known, what is theirs, and what stays instead.

Addresses that audiences or events name together belong to one person. A row that shares one of them
but has a different address beside it is somebody else's: families share a phone.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from outrider.domain.addressees import FIELDS
from outrider.domain.addresses import normalise_email, normalise_phone
from outrider.domain.event_people import PARTIES, PERSON_KINDS
from outrider.domain.people import Address, PersonKind
from outrider.domain.rollouts import draw

ERASED = "erased"
"""The reason of messages that were not sent any more, and what stands where a text was."""
SOURCE = "erasure"
"""Of the opt-out that an erasure leaves."""
PREFIX = "erased-"
DRAWS_TRIED = 100_000
NEEDLE_MIN_CHARACTERS = 5
"""A shorter recipient id is part of many texts that are not about its owner."""


@dataclass(slots=True)
class Identity:
    """All addresses and recipient ids of one person; those that were given come first."""

    given: list[Address]
    linked: list[Address] = field(default_factory=list)

    @property
    def all(self) -> list[Address]:
        return [*self.given, *self.linked]

    @property
    def addresses(self) -> list[Address]:
        return [each for each in self.all if each.kind is not PersonKind.RECIPIENT]

    @property
    def recipient_ids(self) -> list[str]:
        return [each.text for each in self.all if each.kind is PersonKind.RECIPIENT]

    def owns(self, row: Iterable[Address]) -> bool:
        """Whether a member of an audience, or a party of an event, is this person."""
        row = list(row)
        keys = {(each.kind, each.key) for each in row}
        if keys & _keys(self.given):
            return True
        own = _keys(self.all)
        shared = keys & own
        if not shared:
            return False
        known = {kind for kind, _ in own if kind is not PersonKind.RECIPIENT}
        others = {kind for kind, key in keys - own if kind in known}
        return not others and any(kind is not PersonKind.RECIPIENT for kind, _ in shared)

    def link(self, row: Iterable[Address]) -> bool:
        """Learn what stands in a row that has a given address. Whether that was anything new."""
        row = list(row)
        if not {(each.kind, each.key) for each in row} & _keys(self.given):
            return False
        known = _keys(self.all)
        found = {(each.kind, each.key): each for each in row}
        new = [each for key, each in found.items() if key not in known]
        self.linked += new
        return bool(new)

    def is_told_in(self, text: str | None) -> bool:
        return bool(text and self._pattern().search(text))

    def scrubbed(self, text: str) -> str:
        """The text with every address of the person replaced."""
        return self._pattern().sub(ERASED, text)

    def _pattern(self) -> re.Pattern[str]:
        needles = {each.text for each in self.addresses} | {each.key for each in self.addresses}
        needles |= {each for each in self.recipient_ids if len(each) >= NEEDLE_MIN_CHARACTERS}
        longest = sorted(needles, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest)) or r"(?!)", re.IGNORECASE)

    def document(self) -> dict[str, object]:
        return {
            "given": [list(each) for each in self.given],
            "linked": [list(each) for each in self.linked],
        }

    @staticmethod
    def read(document: Mapping[str, Any]) -> "Identity":
        given, linked = (
            [Address(PersonKind(kind), text) for kind, text in document[part]]
            for part in ("given", "linked")
        )
        return Identity(given, linked)


def _keys(addresses: Iterable[Address]) -> set[tuple[PersonKind, str]]:
    return {(each.kind, each.key) for each in addresses}


def named(
    recipient_id: str | None, email: str | None, phone: str | None, push_token: str | None
) -> list[Address]:
    """A row's addresses as they are stored; what cannot be normalised stays as it was given."""
    found = []
    if email:
        found.append(Address(PersonKind.EMAIL, normalise_email(email) or email))
    if phone:
        found.append(Address(PersonKind.PHONE, normalise_phone(phone) or phone))
    if push_token:
        found.append(Address(PersonKind.PUSH_TOKEN, push_token))
    if recipient_id:
        found.append(Address(PersonKind.RECIPIENT, recipient_id))
    return found


def record_addresses(record: object) -> list[Address]:
    """Of a record as it was uploaded."""
    if not isinstance(record, Mapping):
        return []
    return named(*(_text(record.get(name)) for name in ("id", "email", "phone", "pushToken")))


def party_addresses(party: Mapping[str, Any]) -> list[Address]:
    found = []
    for kind, (name, normalise) in FIELDS.items():
        if text := _text(party.get(name)):
            found.append(Address(PERSON_KINDS[kind], normalise(text) or text))
    if who := _text(party.get("id")):
        found.append(Address(PersonKind.RECIPIENT, who))
    return found


def _text(given: object) -> str | None:
    if isinstance(given, int) and not isinstance(given, bool):
        return str(given)
    return given if isinstance(given, str) else None


def parties_of(subject: Mapping[str, Any]) -> list[tuple[str, list[Address]]]:
    return [
        (name, party_addresses(subject[name]))
        for name in PARTIES
        if isinstance(subject.get(name), Mapping)
    ]


def without_person(subject: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
    gone = {name for name, addresses in parties_of(subject) if identity.owns(addresses)}
    return {name: {} if name in gone else value for name, value in subject.items()}


def address_hash(salt: bytes, address: str) -> bytes:
    """The databases compute the same."""
    return hashlib.sha256(salt + address.lower().encode()).digest()


@dataclass(frozen=True, slots=True)
class DrawnRange:
    """Which draws of a run that goes on belong to one step of its rollout, or to one variant of a
    message."""

    salt: str
    first: int
    last: int


def replacement(seed: str, recipient_id: str, ranges: Sequence[DrawnRange]) -> str:
    """What a recipient is called from now on: in every launch under way in the step and
    the variant it was in."""
    wanted = [each for each in ranges if each.first <= draw(each.salt, recipient_id) <= each.last]
    for number in range(DRAWS_TRIED):
        name = f"{PREFIX}{seed}" if not number else f"{PREFIX}{seed}-{number}"
        if all(each.first <= draw(each.salt, name) <= each.last for each in wanted):
            return name
    return f"{PREFIX}{seed}"
