"""Plivo, as its documentation describes it (families/plivo.py names the pages)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.plivo_receipts import NONCE_HEADER, SIGNATURE_HEADER, signature
from outrider.gateways.families.sms_provider import REFERENCE_FIELD, callback_url
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

PATH: Final = "/v1/Account/[^/]+/Message/"


def _error(status: int, text: str) -> Reply:
    return Reply({"api_id": "sandbox", "error": text}, status)


def _read(headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    to, refusal = text_of(document, "dst"), None
    if is_refused(to):
        refusal = _error(400, "dst is not a valid phone number")
    elif not (text_of(document, "src") or text_of(document, "powerpack_uuid")):
        refusal = _error(400, "src parameter not present")
    elif not text_of(document, "text"):
        refusal = _error(400, "text parameter not present")
    return Received(headers.get("X-Outrider-Reference", ""), with_plus(to), refusal)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(400, "the simulator is configured to fail")
        case Outcome.THROTTLED:
            return _error(429, "too many requests")
        case _:
            ids = [f"sandbox-{number}"]
            return Reply({"api_id": "s", "message": "message(s) queued", "message_uuid": ids}, 202)


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["message_uuid"][0])


def _keep(message: Kept, body: bytes) -> Kept:
    document = decoded(body)
    return replace(message, sender=text_of(document, "src"), text=text_of(document, "text"))


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    if method != "GET" or re.fullmatch(PATH, path) is None:
        return None
    number, since = query.get("to_number"), query.get("message_time__gte", "1970-01-01 00:00:00")
    first = datetime.fromisoformat(since).replace(tzinfo=UTC)
    same = [
        each for each in newest
        if each.to.lstrip("+") == (number or each.to.lstrip("+")) and each.at >= first
    ]  # fmt: skip
    most, start = int(query.get("limit", "20")), int(query.get("offset", "0"))
    more = {**query, "offset": str(start + most)}
    return {
        "meta": {
            "limit": most, "offset": start, "previous": None,
            "next": f"{path}?{urlencode(more)}" if len(same) > start + most else None,
        },
        "objects": [
            {"message_uuid": each.message_id, "to_number": each.to.lstrip("+"),
             "from_number": each.sender, "message_direction": "outbound", "message_state": "sent",
             "message_time": each.at.isoformat(sep=" ")}
            for each in same[start : start + most]
        ],
    }  # fmt: skip


_WORDS: Final[Mapping[Event, Mapping[str, str]]] = {
    Event.DELIVERED: {"Status": "delivered"},
    Event.READ: {"Status": "read"},
    Event.BOUNCED: {"Status": "undelivered", "ErrorCode": "50"},
    Event.FAILED: {"Status": "failed", "ErrorCode": "300"},
    Event.OPTED_OUT: {"Status": "failed", "ErrorCode": "200"},
}


def signed_post(url: str, body: bytes, secret: str, _at: datetime) -> Post:
    nonce = "15891346000100000"
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True)
    except ValueError:
        fields = []
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        SIGNATURE_HEADER: signature(secret.split()[0].encode(), url, fields, nonce),
        NONCE_HEADER: nonce,
    }
    return Post(url, body, headers)


def _post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    report = reports[0]
    if report.event is Event.REPLIED:
        form = {
            "MessageUUID": inbound_id(report.report_id), "From": report.to.lstrip("+"),
            "To": OUR_NUMBER.lstrip("+"), "Text": report.text, "Type": "sms",
        }  # fmt: skip
        url = url.partition("?")[0]
    else:
        form = {"MessageUUID": report.message_id, "To": report.to.lstrip("+")}
        form |= _WORDS[report.event]
        if f"{REFERENCE_FIELD}=" not in url:
            url = callback_url(url, report.reference)
    return signed_post(url, urlencode(form).encode(), secret, at)


SIMULATOR = Simulator(
    Provider("plivo", PATH, False, _read, _reply, "Basic"),
    _message_id,
    writer=Writer(_post, frozenset(_WORDS) | {Event.REPLIED}),
    keep=_keep,
    listed=_listed,
)
