"""DKIM signatures (RFC 6376): a message goes in, and comes out with a header for each key on top.

RSA and Ed25519 (RFC 8463), relaxed in headers and body. A signature covers both headers of
one-click unsubscribing, as RFC 8058 demands. Signing is deterministic: the same message at the same
time is the same bytes.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from outrider.domain.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

RSA_MIN_BITS: Final = 1024
"""RFC 8301, 3.2."""
SIGNED: Final = (
    "from", "reply-to", "to", "subject", "date", "message-id", "list-id", "list-unsubscribe",
    "list-unsubscribe-post", "mime-version", "content-type", "content-transfer-encoding",
)  # fmt: skip
"""In this order, where a message has them."""
ADDED_BY_NOBODY: Final = ("from", "to", "subject", "date", "reply-to")
"""Named once more than they occur: a second one, added on the way, breaks the signature."""

_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\Z")
_SEED_BYTES = 32
_FOLD = re.compile(rb"\r\n(?=[ \t])")
_SPACES = re.compile(rb"[ \t]+")
_SPACE_AT_END = re.compile(rb"[ \t]+(?=\r\n)")
_PIECE_CHARACTERS = 72


class DkimKey(NamedTuple):
    """How to sign with a private key, and what DNS has to say about it."""

    algorithm: str
    sign: Callable[[bytes], bytes]
    bits: int
    public: str
    """The tag `p=` of its DNS record."""

    @property
    def kind(self) -> str:
        """The tag `k=`."""
        return self.algorithm.partition("-")[0]

    @property
    def record(self) -> str:
        """The TXT record that it needs."""
        return f"v=DKIM1; k={self.kind}; p={self.public}"


class DkimSigner(NamedTuple):
    domain: str
    selector: str
    key: DkimKey

    @property
    def name(self) -> str:
        """Where its record is in DNS."""
        return f"{self.selector}._domainkey.{self.domain}"

    def header(self, headers: Sequence[tuple[str, bytes]], body_hash: str, now: datetime) -> bytes:
        """The signature of these headers, each with its name in lower case and its raw bytes."""
        names = [name for name in SIGNED for other, _ in headers if other == name]
        tags = (
            f"DKIM-Signature: v=1; a={self.key.algorithm}; c=relaxed/relaxed; d={self.domain};\r\n"
            f" s={self.selector}; t={int(now.timestamp())};\r\n"
            f" h={_folded(':'.join((*names, *ADDED_BY_NOBODY)), ':')};\r\n"
            f" bh={body_hash};\r\n b="
        ).encode("ascii")
        values = dict(headers)
        signed = [_relaxed(values[name]) for name in names]
        signature = self.key.sign(b"\r\n".join((*signed, _relaxed(tags))))
        return tags + _pieces(base64.b64encode(signature)) + b"\r\n"


def signed(message: bytes, signers: Iterable[DkimSigner], now: datetime) -> bytes:
    """A header for each signer, and then the message as it was."""
    head, _, body = message.partition(b"\r\n\r\n")
    headers = []
    for line in _FOLD.sub(b"\0", head).split(b"\r\n"):
        name, _, _ = line.partition(b":")
        headers.append((name.strip().lower().decode("ascii"), line.replace(b"\0", b"\r\n")))
    hashed = base64.b64encode(hashlib.sha256(relaxed_body(body)).digest()).decode("ascii")
    return b"".join([*(signer.header(headers, hashed, now) for signer in signers), message])


def relaxed_body(body: bytes) -> bytes:
    """RFC 6376, 3.4.4."""
    if b"\t" in body or b"  " in body or b" \r" in body:
        body = _SPACES.sub(b" ", _SPACE_AT_END.sub(b"", body))
    body = body.rstrip(b"\r\n")
    return body + b"\r\n" if body else b""


def _relaxed(header: bytes) -> bytes:
    """RFC 6376, 3.4.2, without the line end."""
    name, _, value = header.partition(b":")
    value = _SPACES.sub(b" ", value.replace(b"\r\n", b"")).strip(b" ")
    return name.strip().lower() + b":" + value


def _folded(text: str, at: str) -> str:
    lines, line = [], ""
    for piece in text.split(at):
        if len(line) + len(piece) > _PIECE_CHARACTERS:
            lines.append(line)
            line = ""
        line += piece + at
    return "\r\n  ".join((*lines, line.removesuffix(at)))


def _pieces(signature: bytes) -> bytes:
    cuts = range(0, len(signature), _PIECE_CHARACTERS)
    return b"\r\n ".join(signature[at : at + _PIECE_CHARACTERS] for at in cuts)


def read_key(text: str) -> DkimKey:
    """A private key in PEM, or an Ed25519 seed in base64. A refusal does not repeat it."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        if "-----BEGIN" in text:
            key = load_pem_private_key(text.encode(), None)
        else:
            seed = base64.b64decode(text, validate=True)
            key = Ed25519PrivateKey.from_private_bytes(seed)
    except (ValueError, TypeError):
        key = None
    if isinstance(key, Ed25519PrivateKey):
        return _ed25519(key)
    if isinstance(key, RSAPrivateKey) and key.key_size >= RSA_MIN_BITS:
        return _rsa(key)
    raise InvalidInput(
        "a DKIM key is not a private key that can be used",
        hint="an RSA key of 2048 bits, or an Ed25519 key, in PEM and without a passphrase",
    )


def _ed25519(key: "Ed25519PrivateKey") -> DkimKey:
    def sign(data: bytes) -> bytes:
        # RFC 8463, 3: the hash is what is signed.
        return key.sign(hashlib.sha256(data).digest())

    public = base64.b64encode(key.public_key().public_bytes_raw()).decode("ascii")
    return DkimKey("ed25519-sha256", sign, 8 * _SEED_BYTES, public)


def _rsa(key: "RSAPrivateKey") -> DkimKey:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    padding, algorithm = PKCS1v15(), SHA256()
    raw = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    public = base64.b64encode(raw).decode("ascii")
    return DkimKey(
        "rsa-sha256", lambda data: key.sign(data, padding, algorithm), key.key_size, public
    )


def is_dns_name(text: str) -> bool:
    return len(text) <= 253 and _NAME.match(text) is not None
