"""Telnyx, as its documentation describes it (families/telnyx.py names the pages)."""

import base64
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.sms_provider import callback_url
from outrider.gateways.families.telnyx_receipts import SIGNATURE_HEADER, TIMESTAMP_HEADER
from outrider.gateways.sandbox_protocol import (
    Harmless,
    Headers,
    Outcome,
    Post,
    Provider,
    ProviderReport,
    Received,
    Reply,
    Simulator,
    Writer,
    decoded,
    text_of,
)
from outrider.gateways.simulators.phones import OUR_NUMBER, inbound_id, is_refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def _error(status: int, code: str, title: str) -> Reply:
    return Reply({"errors": [{"code": code, "title": title, "detail": f"{title}."}]}, status)


def _read(headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    to, refusal = text_of(document, "to"), None
    if is_refused(to):
        refusal = _error(400, "40310", "Invalid 'to' address")
    elif not (text_of(document, "from") or text_of(document, "messaging_profile_id")):
        refusal = _error(400, "10004", "Missing required parameter")
    elif not text_of(document, "text"):
        refusal = _error(400, "40316", "No content provided")
    return Received(headers.get("Idempotency-Key", ""), to, refusal)


def _reply(outcome: Outcome, reference: str, _number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(400, "40310", "The simulator is configured to fail")
        case Outcome.THROTTLED:
            return _error(429, "10011", "Too many requests")
        case Outcome.OTHER_REQUEST:
            # Its page names the status; the code and the words are the simulator's.
            return _error(422, "10015", "Idempotency-Key was used with another request body")
        case _:
            message_id = str(uuid.uuid5(uuid.NAMESPACE_URL, reference))
            return Reply({"data": {"record_type": "message", "id": message_id}})


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["data"]["id"])


_WORDS: Final[Mapping[Event, tuple[str, str, str]]] = {
    Event.DELIVERED: ("delivered", "", ""),
    Event.BOUNCED: ("delivery_failed", "40012", "Invalid destination number"),
    Event.FAILED: ("delivery_failed", "40002", "Blocked as spam - temporary"),
    Event.OPTED_OUT: ("sending_failed", "40300", "Blocked due to STOP message"),
}


def private_key(secret: str) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(sha256(secret.split()[0].encode()).digest())


def public_key(secret: str) -> str:
    """As Telnyx shows it, for the target's `webhookPublicKey`."""
    return base64.b64encode(private_key(secret).public_key().public_bytes_raw()).decode()


def signed_post(url: str, body: bytes, secret: str, at: datetime) -> Post:
    time = str(int(at.timestamp()))
    signature = private_key(secret).sign(f"{time}|".encode() + body)
    headers = {
        "content-type": "application/json",
        SIGNATURE_HEADER: base64.b64encode(signature).decode(),
        TIMESTAMP_HEADER: time,
    }
    return Post(url, body, headers)


def _post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    report = reports[0]
    if report.event is Event.REPLIED:
        kind = "message.received"
        payload: dict[str, object] = {
            "id": inbound_id(report.report_id), "direction": "inbound", "text": report.text,
            "from": {"phone_number": report.to}, "to": [{"phone_number": OUR_NUMBER}],
        }  # fmt: skip
    else:
        kind = "message.finalized"
        status, code, title = _WORDS[report.event]
        payload = {
            "id": report.message_id, "direction": "outbound", "text": "…",
            "to": [{"phone_number": report.to, "status": status}],
            "errors": [{"code": code, "title": title}] if code else [],
            "webhook_url": callback_url(url.partition("?")[0], report.reference),
        }  # fmt: skip
    event = {
        "event_type": kind, "id": report.report_id, "occurred_at": report.at.isoformat(),
        "payload": payload, "record_type": "event",
    }  # fmt: skip
    return signed_post(url, msgspec.json.encode({"data": event}), secret, at)


SIMULATOR = Simulator(
    Provider("telnyx", "/v2/messages", True, _read, _reply, "Bearer", compares=True),
    _message_id,
    harmless=(Harmless("GET", "/v2/messaging_profiles", {"data": []}, "Bearer"),),
    writer=Writer(_post, frozenset(_WORDS) | {Event.REPLIED}),
)
