"""One-click unsubscribing (RFC 8058): who a link opts out, signed against forgery.

A token is base64url of a version, a 16-byte seal, and the encrypted scope, channel, topic (if any)
and address: a proxy's log, a forwarded mail or a browser's history does not reveal the recipient.
The seal is HMAC-SHA256 over the plaintext, and the keystream is derived from it, so the same
recipient has the same token and a changed one does not open (a synthetic IV, as in RFC 5297).

Links of the first version had the address in the clear. They are in mailboxes, and are still read.
"""

import base64
import binascii
import hmac
import re
import uuid
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from outrider.domain.addresses import PUSH_TOKEN_MAX_CHARACTERS
from outrider.domain.ids import Scope, TenantId, WorkspaceId
from outrider.domain.purposes import TOPIC_MAX_CHARACTERS
from outrider.domain.states import Channel

SECRET_BYTES: Final = 32
PATH: Final = "unsubscribe"
VARIABLE: Final = "unsubscribeUrl"
"""What a template calls the link."""

_VERSION = b"\x02"
_FIRST_VERSION = b"\x01"
_UUID_BYTES = 16
_SIGNATURE_BYTES = 16
_SCOPE_END = 2 * _UUID_BYTES
_OF_SEAL, _OF_CIPHER = b"unsubscribe seal\x00", b"unsubscribe cipher\x00"
_BLOCK_BYTES = 32
_BETWEEN = b"\x00"
_ADDRESS_MAX_BYTES = PUSH_TOKEN_MAX_CHARACTERS
_CHANNEL_MAX_BYTES = max(len(channel.value) for channel in Channel)
_SAID_MAX_BYTES = (
    _SCOPE_END + _CHANNEL_MAX_BYTES + TOPIC_MAX_CHARACTERS + 2 * len(_BETWEEN) + _ADDRESS_MAX_BYTES
)
_MOST_BYTES = len(_VERSION) + _SAID_MAX_BYTES + _SIGNATURE_BYTES
TOKEN_MAX_CHARACTERS: Final = -(-_MOST_BYTES * 4 // 3)

_TEXT = re.compile(r"[A-Za-z0-9_-]+\Z")
_HIDDEN = "•••"


class Unsubscription(NamedTuple):
    """Who opts out, and where; the address is in lower case."""

    scope: Scope
    channel: Channel
    address: str
    topic: str | None = None
    """Only this topic; without one, everything on the channel."""

    @property
    def masked_address(self) -> str:
        """Enough for its owner to recognise it, and too little for anyone else to use it."""
        local, at, domain = self.address.rpartition("@")
        if at:
            return f"{local[:1] if len(local) > 1 else ''}{_HIDDEN}@{domain}"
        return f"{_HIDDEN}{self.address[-2:] if len(self.address) > 4 else ''}"


@dataclass(frozen=True, slots=True)
class UnsubscribeUrls:
    """Makes the links of messages without any lookup."""

    public_url: str
    secret: bytes = field(repr=False)

    def url_of(self, scope: Scope, channel: Channel, address: str, topic: str | None = None) -> str:
        token = make_token(self.secret, scope, channel, address, topic)
        return f"{self.public_url}/{PATH}/{token}"


def shows_link(*texts: str | None) -> bool:
    """Whether one of a message's templates asks for the link."""
    return any(VARIABLE in text for text in texts if text)


def with_link(attributes: str, url: str) -> str:
    """A recipient's attributes, as JSON text, with the link; an attribute of that name wins."""
    rest = attributes.lstrip()[1:].lstrip()
    return f'{{"{VARIABLE}":"{url}"{"" if rest.startswith("}") else ","}{rest}'


def make_token(
    secret: bytes, scope: Scope, channel: Channel, address: str, topic: str | None = None
) -> str:
    """The same for the same recipient and topic, however the address is spelt."""
    tenant, workspace = (bytes.fromhex(each.replace("-", "")) for each in scope)
    addressed = address.lower().encode(errors="surrogatepass")
    # No message was ever sent to a longer one.
    assert len(addressed) <= _ADDRESS_MAX_BYTES
    # Neither a channel nor a topic has a zero byte; an address may.
    named = channel.value.encode("ascii") + _BETWEEN + (topic or "").encode("ascii") + _BETWEEN
    plaintext = tenant + workspace + named + addressed
    seal = _signature(secret, _OF_SEAL + plaintext)
    return _text(_VERSION + seal + _enciphered(secret, seal, plaintext))


def read_token(secret: bytes, text: str) -> Unsubscription | None:
    """None unless it is exactly what `make_token` made; checked in constant time."""
    raw = _bytes(text)
    if raw is None:
        return None
    if raw[:1] == _FIRST_VERSION:
        return _read_first(secret, raw)
    if raw[:1] != _VERSION:
        return None
    seal, hidden = raw[1 : 1 + _SIGNATURE_BYTES], raw[1 + _SIGNATURE_BYTES :]
    plaintext = _enciphered(secret, seal, hidden)
    if not hmac.compare_digest(_signature(secret, _OF_SEAL + plaintext), seal):
        return None
    channel, _, rest = plaintext[_SCOPE_END:].partition(_BETWEEN)
    topic, _, address = rest.partition(_BETWEEN)
    return _unsubscription(plaintext[:_SCOPE_END], channel, address, topic)


def _read_first(secret: bytes, raw: bytes) -> Unsubscription | None:
    signed, signature = raw[:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]
    if not hmac.compare_digest(_signature(secret, signed), signature):
        return None
    plaintext = signed[len(_FIRST_VERSION) :]
    channel, _, address = plaintext[_SCOPE_END:].partition(_BETWEEN)
    return _unsubscription(plaintext[:_SCOPE_END], channel, address, b"")


def _unsubscription(
    scope: bytes, channel: bytes, address: bytes, topic: bytes
) -> Unsubscription | None:
    """None if something else was sealed or signed."""
    try:
        return Unsubscription(
            Scope(
                TenantId(str(uuid.UUID(bytes=scope[:_UUID_BYTES]))),
                WorkspaceId(str(uuid.UUID(bytes=scope[_UUID_BYTES:]))),
            ),
            Channel(channel.decode()),
            address.decode(),
            topic.decode("ascii") or None,
        )
    except ValueError:
        return None


def _enciphered(secret: bytes, seal: bytes, text: bytes) -> bytes:
    """Its own inverse: XOR with a keystream that only this seal and secret produce."""
    blocks = range(-(-len(text) // _BLOCK_BYTES))
    stream = b"".join(
        hmac.digest(secret, _OF_CIPHER + seal + block.to_bytes(4), "sha256") for block in blocks
    )
    size = len(text)
    return (int.from_bytes(text) ^ int.from_bytes(stream[:size])).to_bytes(size)


def _signature(secret: bytes, said: bytes) -> bytes:
    return hmac.digest(secret, said, "sha256")[:_SIGNATURE_BYTES]


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")


def _bytes(text: str) -> bytes | None:
    if len(text) > TOKEN_MAX_CHARACTERS or not _TEXT.match(text):
        return None
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return None
    # Unused bits of the last character would give one token several spellings.
    return raw if len(raw) > _SIGNATURE_BYTES and _text(raw) == text else None
