"""Throw-away DKIM keys, and an independent verifier (dkimpy) with a table of records."""

from functools import cache
from typing import NamedTuple

import dkim
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from outrider.gateways.dkim import read_key


class MadeKey(NamedTuple):
    pem: str
    record: str


@cache
def rsa_key(bits: int = 2048) -> MadeKey:
    return _made(rsa.generate_private_key(65_537, bits))


@cache
def ed25519_key() -> MadeKey:
    return _made(ed25519.Ed25519PrivateKey.generate())


def _made(key: rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> MadeKey:
    raw = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return MadeKey(raw.decode(), read_key(raw.decode()).record)


def verified(message: bytes, records: dict[str, str]) -> list[bool]:
    """For each signature of a message, whether it holds."""

    def txt(name: bytes, timeout: float = 5) -> bytes | None:  # noqa: ARG001 - dkimpy's signature
        found = records.get(name.decode().rstrip("."))
        return None if found is None else found.encode()

    count = message.partition(b"\r\n\r\n")[0].count(b"DKIM-Signature:")
    found = []
    for at in range(count):
        try:
            found.append(bool(dkim.DKIM(message).verify(idx=at, dnsfunc=txt)))
        except dkim.DKIMException:
            found.append(False)
    return found
