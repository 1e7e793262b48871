"""Receipts of `telnyx`: JSON events, signed with Telnyx's Ed25519 key.

Our reference is in the message's own `webhook_url`, which is part of the signed body. The URL that
was called is not signed, so it is not read.

Sources: https://developers.telnyx.com/docs/development/api-fundamentals/webhooks (the signature),
https://developers.telnyx.com/docs/messaging/messages/receiving-webhooks,
https://developers.telnyx.com/docs/messaging/messages/error-codes.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from outrider.domain.errors import InvalidInput
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import TOLERANCE_SECONDS, SignatureState
from outrider.gateways.families.sms_provider import kept_id, reference_in
from outrider.gateways.family import Target
from outrider.gateways.receipt_reading import (
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_iso,
    kept_text,
    one_line,
)
from outrider.limits.gateways import RECEIPT_TEXT_MAX_CHARACTERS
from outrider.ports.receipts import Callback

CREDENTIAL: Final = "webhookPublicKey"
SIGNATURE_HEADER: Final = "telnyx-signature-ed25519"
TIMESTAMP_HEADER: Final = "telnyx-timestamp"
PUBLIC_KEY_BYTES: Final = 32

BOUNCES: Final[Mapping[str, bool]] = {
    "40001": True,  # a landline, or not routable
    "40006": False,  # the recipient's server is not available
    "40008": False,  # the carrier did not take it
    "40012": True,  # not a valid number
}
"""Errors that are about the recipient, and whether retrying is pointless."""
STOPPED: Final = "40300"


class _Error(msgspec.Struct):
    code: str | int | None = None
    title: str = ""


class _Phone(msgspec.Struct):
    phone_number: str = ""
    status: str = ""


class _Payload(msgspec.Struct):
    id: str
    direction: str = ""
    text: str = ""
    sender: _Phone | None = msgspec.field(default=None, name="from")
    to: list[_Phone] = []
    errors: list[_Error] = []
    webhook_url: str | None = None


class _EventData(msgspec.Struct):
    event_type: str
    payload: msgspec.Raw
    occurred_at: str = ""


class _Event(msgspec.Struct):
    data: _EventData


_event = msgspec.json.Decoder(_Event)
_payload = msgspec.json.Decoder(_Payload)
_OURS = frozenset({"message.finalized", "message.received"})


class TelnyxReader(SignedReader):
    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        given = callback.headers.get(SIGNATURE_HEADER, "")
        time = callback.headers.get(TIMESTAMP_HEADER, "")
        if not given or not time:
            return SignatureState.UNSIGNED
        signed = time.encode(errors="replace") + b"|" + callback.body
        for key in keys:
            try:
                signature = base64.b64decode(given.encode(errors="replace"), validate=True)
                Ed25519PublicKey.from_public_bytes(key).verify(signature, signed)
            except (InvalidSignature, ValueError):
                continue
            is_recent = time.isdecimal() and abs(now.timestamp() - int(time)) <= TOLERANCE_SECONDS
            return SignatureState.GENUINE if is_recent else SignatureState.STALE
        return SignatureState.FORGED

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        data = _event.decode(callback.body).data
        if data.event_type not in _OURS:
            return
        payload, at = _payload.decode(data.payload), from_iso(data.occurred_at)
        message_id = one_line(payload.id)
        if data.event_type == "message.received":
            yield Receipt(
                derived_id(message_id, "received"),
                ReceiptEvent.REPLIED,
                sender=one_line((payload.sender or _Phone()).phone_number),
                text=kept_text(payload.text, RECEIPT_TEXT_MAX_CHARACTERS),
                occurred_at=at,
            )
            return
        to = payload.to[0] if payload.to else _Phone()
        error = payload.errors[0] if payload.errors else _Error(code="")
        code = str(error.code)
        event, permanent = _happened(to.status, code)
        if event is None:
            return
        is_delivered = event is ReceiptEvent.DELIVERED
        words = "" if is_delivered else one_line(f"{to.status} {code} {error.title}".strip())
        yield Receipt(
            derived_id(message_id, to.status, code),
            event,
            reference_in(payload.webhook_url or ""),
            kept_id(message_id),
            permanent,
            words,
            one_line(to.phone_number) if event is ReceiptEvent.OPTED_OUT else None,
            occurred_at=at,
        )


def _happened(status: str, code: str) -> tuple[ReceiptEvent | None, bool]:
    """A delivery that is unconfirmed is not reported: nothing is known of it."""
    match status:
        case "delivered":
            return ReceiptEvent.DELIVERED, False
        case "sending_failed" | "delivery_failed" | "expired":
            if code == STOPPED:
                return ReceiptEvent.OPTED_OUT, True
            if code in BOUNCES:
                return ReceiptEvent.BOUNCED, BOUNCES[code]
            return ReceiptEvent.FAILED, False
        case _:
            return None, False


def _public_keys(text: str) -> Sequence[bytes]:
    try:
        keys = [base64.b64decode(each, validate=True) for each in text.split()]
    except binascii.Error:
        keys = []
    if not keys or any(len(key) != PUBLIC_KEY_BYTES for key in keys):
        raise InvalidInput(f"the credential '{CREDENTIAL}' is not Telnyx's public key in base64")
    return keys


def receipt_reader(target: Target) -> TelnyxReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return TelnyxReader(ReceiptSecret(target, CREDENTIAL, _public_keys))
