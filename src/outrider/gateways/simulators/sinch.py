"""Sinch's SMS API, as its documentation describes it (families/sinch.py names the pages)."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.sinch import (
    NONCE_HEADER,
    SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    signature,
)
from outrider.gateways.sandbox_protocol import (
    Headers,
    Kept,
    Outcome,
    Post,
    Provider,
    ProviderReport,
    Query,
    Received,
    Reply,
    Simulator,
    Writer,
    decoded,
    text_of,
)
from outrider.gateways.simulators.phones import OUR_NUMBER, inbound_id, is_refused, with_plus

PATH: Final = "/xms/v1/[^/]+/batches"


def _error(status: int, code: str, text: str) -> Reply:
    return Reply({"code": code, "text": text}, status)


def _read(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    numbers, refusal = document.get("to"), None
    to = numbers[0] if isinstance(numbers, list) and numbers else ""
    to = to if isinstance(to, str) else ""
    if is_refused(to):
        refusal = _error(400, "syntax_invalid_parameter_format", "Invalid MSISDN.")
    elif not text_of(document, "body"):
        refusal = _error(400, "syntax_constraint_violation", "The body is required.")
    return Received(text_of(document, "client_reference"), with_plus(to), refusal)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(400, "syntax_constraint_violation", "The simulator is set to fail.")
        case Outcome.THROTTLED:
            return _error(429, "too_many_requests", "Too many requests.")
        case _:
            return Reply({"id": f"01SANDBOX{number:017d}", "canceled": False}, 201)


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["id"])


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    if method != "GET" or re.fullmatch(PATH, path) is None:
        return None
    same = [
        {"id": each.message_id, "client_reference": each.reference,
         "to": [each.to.lstrip("+")], "created_at": each.at.isoformat()}
        for each in newest if each.reference == query.get("client_reference", each.reference)
        and each.at >= datetime.fromisoformat(query.get("start_date", each.at.isoformat()))
    ]  # fmt: skip
    shown = same[: int(query.get("page_size", "30"))]
    return {"count": len(same), "page": 0, "page_size": len(shown), "batches": shown}


_WORDS: Final[Mapping[Event, tuple[str, int]]] = {
    Event.DELIVERED: ("Delivered", 0),
    Event.BOUNCED: ("Failed", 402),
    Event.FAILED: ("Expired", 406),
}


def signed_post(url: str, body: bytes, secret: str, at: datetime) -> Post:
    time, nonce = str(int(at.timestamp())), "01FJA8B4A7BM43YGWSG9GBV067"
    headers = {
        "content-type": "application/json",
        SIGNATURE_HEADER: signature(secret.split()[0].encode(), body, nonce, time),
        NONCE_HEADER: nonce,
        TIMESTAMP_HEADER: time,
    }
    return Post(url, body, headers)


def _post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    report = reports[0]
    if report.event is Event.REPLIED:
        document: dict[str, object] = {
            "type": "mo_text", "id": inbound_id(report.report_id), "from": report.to.lstrip("+"),
            "to": OUR_NUMBER.lstrip("+"), "body": report.text,
            "received_at": report.at.isoformat(),
        }  # fmt: skip
    else:
        status, code = _WORDS[report.event]
        document = {
            "type": "recipient_delivery_report_sms", "batch_id": report.message_id,
            "recipient": report.to.lstrip("+"), "status": status, "code": code,
            "at": report.at.isoformat(), "client_reference": report.reference,
        }  # fmt: skip
    return signed_post(url, msgspec.json.encode(document), secret, at)


SIMULATOR = Simulator(
    Provider("sinch", PATH, False, _read, _reply, "Bearer"),
    _message_id,
    writer=Writer(_post, frozenset(_WORDS) | {Event.REPLIED}),
    listed=_listed,
)
