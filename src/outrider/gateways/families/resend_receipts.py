"""Receipts of `resend`: JSON events, signed by Svix with the webhook's signing secret.

Our reference comes back as a tag of the message. The id of an event is Svix's, and a repeat has it
again.

Sources: https://resend.com/docs/dashboard/webhooks/event-types,
https://resend.com/docs/dashboard/webhooks/body-parameters,
https://resend.com/docs/webhooks/emails/bounced, https://resend.com/docs/webhooks/verify-webhooks-requests,
https://resend.com/docs/dashboard/emails/tags, https://docs.svix.com/receiving/verifying-payloads/how-manual.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import SignatureState, checked, signing_keys
from outrider.gateways.family import Target
from outrider.gateways.receipt_reading import (
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_iso,
    one_line,
)
from outrider.limits.gateways import RECEIPT_ID_MAX_CHARACTERS
from outrider.ports.receipts import Callback

CREDENTIAL: Final = "webhookSecret"
REFERENCE_TAG: Final = "outrider_reference"
_TAG_VALUE = re.compile(r"[A-Za-z0-9_-]{1,256}\Z")

EVENTS: Final = {
    "email.delivered": ReceiptEvent.DELIVERED,
    "email.bounced": ReceiptEvent.BOUNCED,
    "email.complained": ReceiptEvent.COMPLAINED,
    "email.opened": ReceiptEvent.READ,
    "email.clicked": ReceiptEvent.READ,
    "email.delivery_delayed": ReceiptEvent.FAILED,
    "email.failed": ReceiptEvent.FAILED,
    "email.suppressed": ReceiptEvent.FAILED,
}
"""Scheduled and sent add nothing to what the ledger knows; domains and contacts are not messages. A
delay is a temporary failure, which later reports outweigh."""

PERMANENT: Final = "Permanent"
"""Of a bounce's types; Transient and Undetermined are the others."""


class _Reason(msgspec.Struct):
    message: str = ""
    reason: str = ""
    type: str = ""
    sub_type: str = msgspec.field(default="", name="subType")


class _Data(msgspec.Struct):
    email_id: str | None = None
    created_at: str = ""
    tags: dict[str, Any] | list[dict[str, Any]] | None = None
    """Documented as a list of names and values, and sent as an object."""
    bounce: _Reason | None = None
    failed: _Reason | None = None
    suppressed: _Reason | None = None


class _Event(msgspec.Struct):
    type: str
    created_at: str = ""
    data: _Data = msgspec.field(default_factory=_Data)


class _Type(msgspec.Struct):
    type: str


_decoder = msgspec.json.Decoder(_Event)
_type_decoder = msgspec.json.Decoder(_Type)


def reference_tags(reference: str) -> list[dict[str, str]]:
    """The same for every repeat of a message: bytes must not change under an Idempotency-Key."""
    if not _TAG_VALUE.match(reference):
        return []
    return [{"name": REFERENCE_TAG, "value": reference}]


class ResendReader(SignedReader):
    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        return checked(
            keys, callback.headers, callback.body, now.timestamp(), _sender(callback.headers)
        )

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        if _type_decoder.decode(callback.body).type not in EVENTS:
            return
        event = _decoder.decode(callback.body)
        data = event.data
        reason = data.bounce or data.failed or data.suppressed or _Reason()
        permanent = event.type == "email.suppressed" or (
            event.type == "email.bounced" and reason.type == PERMANENT
        )
        words = (reason.type, reason.sub_type, reason.message or reason.reason)
        is_delay = event.type == "email.delivery_delayed"
        yield Receipt(
            derived_id(callback.headers[f"{_sender(callback.headers)}-id"]),
            EVENTS[event.type],
            _reference(data.tags),
            None if not data.email_id else one_line(data.email_id, RECEIPT_ID_MAX_CHARACTERS),
            permanent,
            "delivery delayed" if is_delay else one_line(" ".join(filter(None, words))),
            occurred_at=from_iso(event.created_at),
        )


def _sender(headers: Mapping[str, str]) -> str:
    """Svix's own header names, or those of Standard Webhooks, which Svix sends too."""
    return "svix" if "svix-id" in headers else "webhook"


def _reference(tags: dict[str, Any] | list[dict[str, Any]] | None) -> str | None:
    if isinstance(tags, list):
        tags = {str(tag.get("name")): tag.get("value") for tag in tags}
    found = (tags or {}).get(REFERENCE_TAG)
    return one_line(found, RECEIPT_ID_MAX_CHARACTERS) or None if isinstance(found, str) else None


def receipt_reader(target: Target) -> ResendReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return ResendReader(ReceiptSecret(target, CREDENTIAL, signing_keys))
