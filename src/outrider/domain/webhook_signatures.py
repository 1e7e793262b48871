"""Standard Webhooks 1.0 signatures: HMAC-SHA256 over id, time and body, made and checked.

During a rotation the secret's file holds both secrets: the signer signs with each, and the verifier
accepts either. https://github.com/standard-webhooks/standard-webhooks
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from outrider.domain.errors import InvalidInput

PREFIX = "whsec_"
VERSION = "v1"
WEBHOOK_SECRET_MIN_BYTES: Final = 24
WEBHOOK_SECRETS_MAX: Final = 4
TOLERANCE_SECONDS: Final = 300
"""A callback older or newer than this is refused, so that a captured one cannot be replayed."""
SIGNATURES_MAX: Final = 16

_SECONDS = re.compile(r"[0-9]{1,12}\Z")


class SignatureState(StrEnum):
    GENUINE = "genuine"
    UNSIGNED = "unsigned"
    FORGED = "forged"
    STALE = "stale"


def signing_keys(secret: str) -> list[bytes]:
    """The keys in a secret: `whsec_` and base64, or the text itself; several separated by blanks.

    InvalidInput says what is wrong without repeating any of it.
    """
    keys = [_key(text) for text in secret.split()]
    if not 1 <= len(keys) <= WEBHOOK_SECRETS_MAX:
        raise InvalidInput(f"a webhook's secret must contain 1 to {WEBHOOK_SECRETS_MAX} secrets")
    if any(len(key) < WEBHOOK_SECRET_MIN_BYTES for key in keys):
        raise InvalidInput(
            f"a webhook's secret has fewer than {WEBHOOK_SECRET_MIN_BYTES} bytes",
            hint=f"python -c \"import base64, os; print('{PREFIX}' +"
            ' base64.b64encode(os.urandom(32)).decode())"',
        )
    return keys


def _key(text: str) -> bytes:
    if not text.startswith(PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise InvalidInput(f"what follows {PREFIX} in a webhook's secret is not base64") from None


def signed_headers(
    keys: Sequence[bytes], message_id: str, unix_seconds: int, body: bytes
) -> dict[str, str]:
    content = _signed_content(message_id, str(unix_seconds), body)
    signatures = (
        base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode() for key in keys
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(unix_seconds),
        "webhook-signature": " ".join(f"{VERSION},{signature}" for signature in signatures),
    }


def checked(
    keys: Sequence[bytes],
    headers: Mapping[str, str],
    body: bytes,
    unix_seconds: float,
    sender: str = "webhook",
) -> SignatureState:
    """Whether a request was signed recently with one of these keys.

    Header names are in lower case; Svix calls the same headers `svix-…`.
    """
    message_id = headers.get(f"{sender}-id", "")
    sent_at = headers.get(f"{sender}-timestamp", "")
    given = headers.get(f"{sender}-signature", "")
    if not (message_id and sent_at and given):
        return SignatureState.UNSIGNED
    if _SECONDS.match(sent_at) is None:
        return SignatureState.FORGED
    content = _signed_content(message_id, sent_at, body)
    wanted = [hmac.digest(key, content, "sha256") for key in keys]
    signatures = [found for text in given.split()[:SIGNATURES_MAX] if (found := _signature(text))]
    matches = [hmac.compare_digest(one, other) for one in wanted for other in signatures]
    if not any(matches):
        return SignatureState.FORGED
    if abs(unix_seconds - int(sent_at)) > TOLERANCE_SECONDS:
        return SignatureState.STALE
    return SignatureState.GENUINE


def _signature(text: str) -> bytes | None:
    """None if it is not of our version: a header may contain several versions."""
    version, _, encoded = text.partition(",")
    if version != VERSION:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        return None


def _signed_content(message_id: str, sent_at: str, body: bytes) -> bytes:
    return f"{message_id}.{sent_at}.".encode(errors="replace") + body
