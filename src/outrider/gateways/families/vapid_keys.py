"""VAPID (RFC 8292): how an application server identifies itself to push services."""

import base64
import binascii
from typing import TYPE_CHECKING, Final

from outrider.domain.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

TOKEN_SECONDS: Final = 12 * 3_600
"""At most a day (RFC 8292, 2)."""
KEY_BYTES: Final = 32
NOT_A_KEY: Final = "the credential 'privateKey' is not a P-256 key"
HINT: Final = "it is 32 bytes in base64url, or a PEM file"


def decoded_key(text: str) -> bytes:
    """base64url, with or without padding; empty if it is not."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return b""


def encoded(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def signing_key(text: str) -> "ec.EllipticCurvePrivateKey":
    """InvalidInput: it is none. The key itself is never quoted."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        if text.startswith("-----BEGIN"):
            found = load_pem_private_key(text.encode(), None)
        else:
            raw = decoded_key(text.strip())
            if len(raw) != KEY_BYTES:
                raise ValueError("too short, too long, or not base64url")
            found = ec.derive_private_key(int.from_bytes(raw, "big"), ec.SECP256R1())
    except (ValueError, TypeError):
        raise InvalidInput(NOT_A_KEY, hint=HINT) from None
    if not isinstance(found, ec.EllipticCurvePrivateKey) or found.curve.name != "secp256r1":
        raise InvalidInput(NOT_A_KEY, hint=HINT)
    return found


def public_text(key: "ec.EllipticCurvePrivateKey") -> str:
    """As a page gives it to `pushManager.subscribe`."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = key.public_key()
    return encoded(public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint))


def authorization(
    key: "ec.EllipticCurvePrivateKey", audience: str, subject: str, now: float
) -> str:
    import jwt

    claims = {"aud": audience, "exp": int(now) + TOKEN_SECONDS, "sub": subject}
    return f"vapid t={jwt.encode(claims, key, algorithm='ES256')}, k={public_text(key)}"
