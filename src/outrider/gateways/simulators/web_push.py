"""A push service for browsers (RFC 8030), together with the browser: it can read what it gets."""

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from outrider.gateways.families.vapid_keys import encoded
from outrider.gateways.sandbox_protocol import (
    Headers,
    Outcome,
    Provider,
    Received,
    Reply,
    Simulator,
    decoded,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

AUTH: Final = sha256(b"the sandbox's browser").digest()[:16]


def browser_key() -> "ec.EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    seed = sha256(b"the sandbox's browser has a key").digest()
    return ec.derive_private_key(int.from_bytes(seed[:31], "big") + 1, ec.SECP256R1())


def subscription(endpoint: str) -> str:
    """One of the sandbox's browser, as a recipient's push token."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    public = browser_key().public_key()
    point = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    keys = f'{{"p256dh":"{encoded(point)}","auth":"{encoded(AUTH)}"}}'
    return f'{{"endpoint":"{endpoint}","keys":{keys}}}'


def decrypted(body: bytes) -> bytes | None:
    import http_ece  # type: ignore[import-untyped]

    try:
        found: bytes = http_ece.decrypt(
            body, private_key=browser_key(), auth_secret=AUTH, version="aes128gcm"
        )
    except (ValueError, http_ece.ECEException):
        return None
    return found


def _read(headers: Headers, body: bytes) -> Received:
    refusal, content = None, decrypted(body)
    if content is None or "notification" not in decoded(content):
        refusal = Reply({"error": "not encrypted for this browser"}, 400)
    elif not headers.get("TTL", "").isdecimal():
        refusal = Reply({"error": "TTL is missing"}, 400)
    return Received(headers.get("X-Outrider-Reference", ""), "browser", refusal)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return Reply({"error": "the subscription has expired"}, 410)
        case Outcome.THROTTLED:
            return Reply({"error": "too many requests"}, 429)
        case _:
            return Reply(None, 201, {"Location": f"/web-push-message/{number}"})


def _message_id(reply: Reply) -> str:
    return (reply.headers or {}).get("Location", "")


SIMULATOR = Simulator(
    Provider("web_push", "/web-push/[^/]+", False, _read, _reply, "vapid"), _message_id
)
