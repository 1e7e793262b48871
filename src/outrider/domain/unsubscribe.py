"""One-click unsubscribing (RFC 8058): whom a link opts out, signed so that nobody can make one up.

A token is base64url of a version, the scope, the channel and the address, and 16 bytes of
HMAC-SHA256 over them. Its signature is judged before anything in it is read.
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
from outrider.domain.states import Channel

SECRET_BYTES: Final = 32
PATH: Final = "unsubscribe"
VARIABLE: Final = "unsubscribeUrl"
"""What a template calls the link."""

_VERSION = b"\x01"
_UUID_BYTES = 16
_SIGNATURE_BYTES = 16
_SCOPE_END = len(_VERSION) + 2 * _UUID_BYTES
_BETWEEN = b"\x00"
_ADDRESS_MAX_BYTES = PUSH_TOKEN_MAX_CHARACTERS
_CHANNEL_MAX_BYTES = max(len(channel.value) for channel in Channel)
_MOST_BYTES = _SCOPE_END + _CHANNEL_MAX_BYTES + 1 + _ADDRESS_MAX_BYTES + _SIGNATURE_BYTES
TOKEN_MAX_CHARACTERS: Final = -(-_MOST_BYTES * 4 // 3)

_TEXT = re.compile(r"[A-Za-z0-9_-]+\Z")
_HIDDEN = "•••"


class Unsubscription(NamedTuple):
    """Who wants to hear nothing more, and where; the address is in lower case."""

    scope: Scope
    channel: Channel
    address: str

    @property
    def masked_address(self) -> str:
        """Enough for its owner to know it by, and too little for anybody else to write to it."""
        local, at, domain = self.address.rpartition("@")
        if at:
            return f"{local[:1] if len(local) > 1 else ''}{_HIDDEN}@{domain}"
        return f"{_HIDDEN}{self.address[-2:] if len(self.address) > 4 else ''}"


@dataclass(frozen=True, slots=True)
class UnsubscribeUrls:
    """Makes the links of messages, without asking anybody."""

    public_url: str
    secret: bytes = field(repr=False)

    def url_of(self, scope: Scope, channel: Channel, address: str) -> str:
        return f"{self.public_url}/{PATH}/{make_token(self.secret, scope, channel, address)}"


def shows_link(*texts: str | None) -> bool:
    """Whether one of a message's templates asks for the link."""
    return any(VARIABLE in text for text in texts if text)


def with_link(attributes: str, url: str) -> str:
    """A recipient's attributes, as JSON text, with the link; one of that name they had wins."""
    rest = attributes.lstrip()[1:].lstrip()
    return f'{{"{VARIABLE}":"{url}"{"" if rest.startswith("}") else ","}{rest}'


def make_token(secret: bytes, scope: Scope, channel: Channel, address: str) -> str:
    """The same for the same recipient, however the address is spelt."""
    tenant, workspace = (bytes.fromhex(each.replace("-", "")) for each in scope)
    addressed = address.lower().encode(errors="surrogatepass")
    # Nobody was ever written to at a longer one.
    assert len(addressed) <= _ADDRESS_MAX_BYTES
    said = b"".join(
        (_VERSION, tenant, workspace, channel.value.encode("ascii"), _BETWEEN, addressed)
    )
    return _text(said + _signature(secret, said))


def read_token(secret: bytes, text: str) -> Unsubscription | None:
    """None unless it is exactly what `make_token` made; nearly right takes as long as wrong."""
    raw = _bytes(text)
    if raw is None:
        return None
    said, signature = raw[:-_SIGNATURE_BYTES], raw[-_SIGNATURE_BYTES:]
    if not hmac.compare_digest(_signature(secret, said), signature):
        return None
    return _read(said)


def _read(said: bytes) -> Unsubscription | None:
    """What was signed; None where a later version wrote it."""
    channel, between, address = said[_SCOPE_END:].partition(_BETWEEN)
    if said[:1] != _VERSION or not between:
        return None
    scope = Scope(
        TenantId(str(uuid.UUID(bytes=said[1 : 1 + _UUID_BYTES]))),
        WorkspaceId(str(uuid.UUID(bytes=said[1 + _UUID_BYTES : _SCOPE_END]))),
    )
    try:
        return Unsubscription(scope, Channel(channel.decode()), address.decode())
    except ValueError:
        return None


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
    # Spare bits of the last character would give one token several spellings.
    return raw if len(raw) > _SIGNATURE_BYTES and _text(raw) == text else None
