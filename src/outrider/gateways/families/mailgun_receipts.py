"""Receipts of `mailgun`: JSON events with a signature in the body, which covers only a time and a
token. Our reference comes back as a variable of the message.

Sources: https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks,
https://documentation.mailgun.com/docs/mailgun/user-manual/events/event-types.
"""

import hmac
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import TOLERANCE_SECONDS, SignatureState
from outrider.gateways.families.mail_provider import REFERENCE_NAME, kept_id
from outrider.gateways.family import Target
from outrider.gateways.receipt_reading import (
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_unix,
    one_line,
    plain_keys,
)
from outrider.ports.receipts import Callback

CREDENTIAL: Final = "webhookSigningKey"


class LogEntry(msgspec.Struct):
    """An event of a message, in the log or in a webhook."""

    id: str
    recipient: str = ""
    message: dict[str, Any] = {}
    variables: Any = msgspec.field(default=None, name="user-variables")

    @property
    def reference(self) -> object:
        return self.variables.get(REFERENCE_NAME) if isinstance(self.variables, dict) else None

    @property
    def message_id(self) -> str:
        headers = self.message.get("headers")
        known = headers.get("message-id") if isinstance(headers, dict) else None
        return known.strip("<>") if isinstance(known, str) else ""


class _Signature(msgspec.Struct):
    timestamp: str | int
    token: str
    signature: str


class _Event(LogEntry):
    event: str = ""
    severity: str = ""
    reason: str = ""
    timestamp: float = 0.0
    status: dict[str, Any] = msgspec.field(default_factory=dict, name="delivery-status")

    @property
    def meaning(self) -> tuple[ReceiptEvent | None, bool]:
        match self.event:
            case "delivered":
                return ReceiptEvent.DELIVERED, False
            case "failed" if self.severity == "permanent":
                return ReceiptEvent.BOUNCED, True
            case "failed" | "rejected":
                return ReceiptEvent.FAILED, self.event == "rejected"
            case "opened" | "clicked":
                return ReceiptEvent.READ, False
            case "complained":
                return ReceiptEvent.COMPLAINED, True
            case "unsubscribed":
                return ReceiptEvent.OPTED_OUT, True
            case _:
                return None, False


class _Signed(msgspec.Struct):
    signature: _Signature | None = None


class _Callback(msgspec.Struct):
    data: _Event = msgspec.field(name="event-data")


_signed = msgspec.json.Decoder(_Signed)
_callbacks = msgspec.json.Decoder(_Callback)


class MailgunReader(SignedReader):
    """The signature is in the body and covers only a time and a token, not the event."""

    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        try:
            signed = _signed.decode(callback.body).signature
        except (msgspec.DecodeError, RecursionError):
            return SignatureState.UNSIGNED
        if signed is None:
            return SignatureState.UNSIGNED
        text = f"{signed.timestamp}{signed.token}".encode(errors="replace")
        given = signed.signature.encode(errors="replace")
        digests = [hmac.digest(key, text, "sha256").hex().encode() for key in keys]
        if not any(hmac.compare_digest(each, given) for each in digests):
            return SignatureState.FORGED
        sent_at = from_unix(signed.timestamp)
        age = None if sent_at is None else abs((now - sent_at).total_seconds())
        is_old = age is None or age > TOLERANCE_SECONDS
        return SignatureState.STALE if is_old else SignatureState.GENUINE

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        event = _callbacks.decode(callback.body).data
        what, permanent = event.meaning
        if what is None:
            return
        words = event.status.get("message") or event.status.get("description") or ""
        yield Receipt(
            derived_id(event.id),
            what,
            kept_id(event.reference),
            kept_id(event.message_id),
            permanent,
            one_line(f"{event.reason} {words}"),
            one_line(event.recipient) or None if what is ReceiptEvent.OPTED_OUT else None,
            occurred_at=from_unix(event.timestamp) if event.timestamp else None,
        )


def receipt_reader(target: Target) -> MailgunReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return MailgunReader(ReceiptSecret(target, CREDENTIAL, plain_keys))
