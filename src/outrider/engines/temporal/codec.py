"""A codec for deployments that must hide even ids: payloads leave this process encrypted.

AES-256-GCM under a key that only Outrider's processes have. What was written without a codec stays
readable, so that it can be enabled while work is in progress.
"""

import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from temporalio.api.common.v1 import Payload
from temporalio.converter import PayloadCodec

from outrider.domain.errors import InvalidInput

ENCODING = b"binary/outrider-aes-gcm"
KEY_BYTES = 32
NONCE_BYTES = 12


class EncryptionCodec(PayloadCodec):
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._sealed(payload) for payload in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [self._opened(payload) for payload in payloads]

    def _sealed(self, payload: Payload) -> Payload:
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, payload.SerializeToString(), ENCODING)
        return Payload(metadata={"encoding": ENCODING}, data=nonce + sealed)

    def _opened(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCODING:
            return payload
        nonce, sealed = payload.data[:NONCE_BYTES], payload.data[NONCE_BYTES:]
        try:
            return Payload.FromString(self._cipher.decrypt(nonce, sealed, ENCODING))
        except InvalidTag as error:
            raise ValueError("a payload was encrypted with another key") from error


def codec_of(secret: str) -> EncryptionCodec:
    """The key as 64 hexadecimal digits, as printed by `openssl rand -hex 32`."""
    try:
        key = bytes.fromhex(secret.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise InvalidInput(
            "the key of the Temporal codec is not 64 hexadecimal digits",
            hint="`openssl rand -hex 32` creates one",
        )
    return EncryptionCodec(key)
