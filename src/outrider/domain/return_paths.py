"""Return paths: the envelope sender of a message identifies its item and proves that we made it.

`bounces@mail.example` becomes `bounces+TOKEN@mail.example`. The token is one number: the reference
(256 bits) followed by 39 bits of an HMAC, so that knowing a reference is not enough to forge its
bounce. It uses letters, digits and `-_=` and is case-insensitive, because some mail servers do not
preserve case. Its 56 characters and the seven before the `+` fit the 64 octets that RFC 5321
(4.5.3.1.1) allows a local part.
"""

import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from outrider.domain.addresses import normalise_email
from outrider.domain.errors import InvalidInput

LOCAL_PART_MAX_OCTETS: Final = 64
TOKEN_CHARACTERS: Final = 56
NAME_MAX_CHARACTERS: Final = LOCAL_PART_MAX_OCTETS - TOKEN_CHARACTERS - 1

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz-_="
_VALUES = {letter: value for value, letter in enumerate(_ALPHABET)}
_REFERENCE = re.compile(r"[0-9a-f]{64}\Z")
_REFERENCE_BITS = 256
_SEAL_BITS = 39
_SEAL_BYTES = 8
_OF_SEAL = b"outrider return path\x00"


@dataclass(frozen=True, slots=True)
class ReturnPath:
    """The address to which a target's bounces go, without a token."""

    name: str
    domain: str

    @classmethod
    def parse(cls, text: str) -> "ReturnPath":
        address = normalise_email(text)
        name, _, domain = (address or "").rpartition("@")
        if not name.isascii() or not re.fullmatch(r"[A-Za-z0-9._-]+", name):
            raise InvalidInput(
                "returnPath is not a plain e-mail address", hint="for example bounces@mail.example"
            )
        if len(name) > NAME_MAX_CHARACTERS:
            raise InvalidInput(
                f"returnPath has more than {NAME_MAX_CHARACTERS} characters before the @",
                hint="each message's own token follows them, and mail servers take 64 in all",
            )
        return cls(name.lower(), domain.lower())

    def __str__(self) -> str:
        return f"{self.name}@{self.domain}"

    def address(self, key: bytes, reference: str) -> str:
        """The envelope sender of this item's message. A reference that is not ours gets no token:
        its bounce is then recognised by the returned parts of the message."""
        token = make_token(key, reference)
        return str(self) if token is None else f"{self.name}+{token}@{self.domain}"

    def token_in(self, address: str) -> str | None:
        """The part after the `+`: empty for the bare address, None for any other address."""
        local, _, domain = address.strip().strip("<>").rpartition("@")
        name, plus, token = local.lower().partition("+")
        if name != self.name or domain.lower().rstrip(".") != self.domain:
            return None
        return token if plus else ""

    def reference_in(self, keys: Iterable[bytes], address: str) -> str | None:
        """The reference of an address that was made with one of these keys."""
        token = self.token_in(address)
        return read_token(list(keys), token) if token else None


def make_token(key: bytes, reference: str) -> str | None:
    if not _REFERENCE.match(reference):
        return None
    number = int(reference, 16) << _SEAL_BITS | _seal(key, reference)
    letters = []
    for _ in range(TOKEN_CHARACTERS):
        number, value = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[value])
    return "".join(letters)


def read_token(keys: Sequence[bytes], token: str) -> str | None:
    """None unless it is exactly what `make_token` made with one of these keys."""
    if len(token) != TOKEN_CHARACTERS:
        return None
    number = 0
    for letter in reversed(token.lower()):
        value = _VALUES.get(letter)
        if value is None:
            return None
        number = number * len(_ALPHABET) + value
    said, seal = number >> _SEAL_BITS, number & ((1 << _SEAL_BITS) - 1)
    if said >> _REFERENCE_BITS:
        return None
    reference = f"{said:064x}"
    given = seal.to_bytes(_SEAL_BYTES)
    matches = [
        hmac.compare_digest(_seal(key, reference).to_bytes(_SEAL_BYTES), given) for key in keys
    ]
    return reference if any(matches) else None


def _seal(key: bytes, reference: str) -> int:
    digest = hmac.digest(key, _OF_SEAL + reference.encode("ascii"), "sha256")
    return int.from_bytes(digest[:_SEAL_BYTES]) >> (8 * _SEAL_BYTES - _SEAL_BITS)
