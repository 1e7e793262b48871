"""Standard Webhooks signatures: verify callbacks of Outrider, and sign receipts for it.

Outrider signs callbacks of intents and events of the bus with `webhook-…` headers. A provider of
your own signs the receipts that it posts to Outrider in the same way.
"""

import base64
import binascii
import hmac
import time
from collections.abc import Mapping

from outrider_client.errors import InvalidWebhook

TOLERANCE_SECONDS = 300
PREFIX = "whsec_"
VERSION = "v1"


def verify(
    secret: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float | None = None,
    tolerance_seconds: float = TOLERANCE_SECONDS,
) -> str:
    """The callback's ID if it is genuine and recent; otherwise raises InvalidWebhook.

    `body` must be the bytes as received. Repeats of a callback have the same ID. `secret` may hold
    several secrets separated by blanks, for a rotation.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        message_id, sent_at = given["webhook-id"], given["webhook-timestamp"]
        signatures = given["webhook-signature"].split()
    except KeyError as error:
        raise InvalidWebhook(f"the header {error.args[0]} is missing") from None
    if not (sent_at.isascii() and sent_at.isdecimal()):
        raise InvalidWebhook("webhook-timestamp is not a number of seconds")
    wanted = [_signature(key, message_id, sent_at, body) for key in _keys(secret)]
    matches = [
        hmac.compare_digest(one.encode(), other.encode()) for one in wanted for other in signatures
    ]
    if not any(matches):
        raise InvalidWebhook("the signature is wrong")
    age = (time.time() if now is None else now) - int(sent_at)
    if abs(age) > tolerance_seconds:
        raise InvalidWebhook(f"the callback was signed {age:.0f} seconds ago")
    return message_id


def sign(secret: str, message_id: str, body: bytes, *, now: float | None = None) -> dict[str, str]:
    """The headers of a request with this body."""
    sent_at = str(int(time.time() if now is None else now))
    signatures = (_signature(key, message_id, sent_at, body) for key in _keys(secret))
    return {
        "webhook-id": message_id,
        "webhook-timestamp": sent_at,
        "webhook-signature": " ".join(signatures),
    }


def _signature(key: bytes, message_id: str, sent_at: str, body: bytes) -> str:
    content = f"{message_id}.{sent_at}.".encode() + body
    return f"{VERSION},{base64.b64encode(hmac.digest(key, content, 'sha256')).decode()}"


def _keys(secret: str) -> list[bytes]:
    keys = [_key(text) for text in secret.split()]
    if not keys or not all(keys):
        raise ValueError("the secret is empty")
    return keys


def _key(text: str) -> bytes:
    if not text.startswith(PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"what follows {PREFIX} in the secret is not base64") from None
