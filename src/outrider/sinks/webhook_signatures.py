"""Standard Webhooks 1.0 signatures: HMAC-SHA256 over id, time and body, one for each secret.

While a secret is being changed both are in its file, and receivers may check with either.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from outrider.domain.errors import InvalidInput
from outrider.limits.bus import WEBHOOK_SECRET_MIN_BYTES, WEBHOOK_SECRETS_MAX

PREFIX = "whsec_"
VERSION = "v1"


def signing_keys(secret: str) -> list[bytes]:
    """The keys in a secret: `whsec_` and base64, or the text itself; several with blanks between.

    InvalidInput says what is wrong and repeats none of it.
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
    content = f"{message_id}.{unix_seconds}.".encode() + body
    signatures = (
        base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode() for key in keys
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(unix_seconds),
        "webhook-signature": " ".join(f"{VERSION},{signature}" for signature in signatures),
    }
