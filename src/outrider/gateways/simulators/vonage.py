"""Vonage's Messages API, as its documentation describes it (families/vonage.py names the pages)."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
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
from outrider.gateways.simulators.phones import OUR_NUMBER, inbound_id, is_refused, with_plus

ERRORS: Final = "https://developer.vonage.com/api-errors/messages#"


def _error(status: int, code: int, title: str) -> Reply:
    return Reply({"type": f"{ERRORS}{code}", "title": title, "detail": f"{title}."}, status)


def _read(headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    to, refusal = text_of(document, "to"), None
    if is_refused(to) or to.startswith("+"):
        refusal = _error(422, 1170, "Invalid or Missing Msisdn Param")
    elif text_of(document, "channel") != "sms" or text_of(document, "message_type") != "text":
        refusal = _error(422, 1020, "Invalid params")
    elif not text_of(document, "from") or not text_of(document, "text"):
        refusal = _error(422, 1010, "Missing params")
    reference = text_of(document, "client_ref") or headers.get("X-Outrider-Reference", "")
    return Received(reference, with_plus(to), refusal)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(422, 1240, "The simulator is configured to fail")
        case Outcome.THROTTLED:
            return _error(429, 1000, "Throttled")
        case _:
            return Reply({"message_uuid": f"sandbox-{number}"}, 202)


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["message_uuid"])


_WORDS: Final[Mapping[Event, tuple[str, int | None]]] = {
    Event.DELIVERED: ("delivered", None),
    Event.READ: ("read", None),
    Event.BOUNCED: ("undeliverable", 1240),
    Event.FAILED: ("rejected", 1210),
}


def signed_post(url: str, body: bytes, secret: str, at: datetime) -> Post:
    import jwt

    digest = hashlib.sha256(body).hexdigest()
    claims = {
        "iat": int(at.timestamp()), "jti": digest[:32], "iss": "Vonage", "payload_hash": digest,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        token = jwt.encode(claims, secret.split()[0], algorithm="HS256")
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    return Post(url, body, headers)


def _post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    report = reports[0]
    document: dict[str, object] = {"channel": "sms", "timestamp": report.at.isoformat()}
    if report.event is Event.REPLIED:
        document |= {
            "message_uuid": inbound_id(report.report_id), "from": report.to.lstrip("+"),
            "to": OUR_NUMBER.lstrip("+"), "message_type": "text", "text": report.text,
        }  # fmt: skip
    else:
        status, code = _WORDS[report.event]
        document |= {
            "message_uuid": report.message_id, "to": report.to.lstrip("+"),
            "from": OUR_NUMBER.lstrip("+"), "status": status, "client_ref": report.reference,
        }  # fmt: skip
        if code is not None:
            document["error"] = {"type": f"{ERRORS}{code}", "title": code, "detail": "why"}
    return signed_post(url, msgspec.json.encode(document), secret, at)


SIMULATOR = Simulator(
    Provider("vonage", "/v1/messages", False, _read, _reply, "Basic"),
    _message_id,
    harmless=(Harmless("GET", "/v2/applications", {"total_items": 0}, "Basic"),),
    writer=Writer(_post, frozenset(_WORDS) | {Event.REPLIED}),
)
