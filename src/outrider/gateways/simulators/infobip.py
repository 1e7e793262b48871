"""Infobip's SMS API, as its documentation describes it (families/infobip.py names the pages)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.sandbox_protocol import (
    Harmless,
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
)
from outrider.gateways.simulators.mail import nested, password_post, string
from outrider.gateways.simulators.phones import OUR_NUMBER, inbound_id, is_refused, with_plus

GROUPS: Final = {"PENDING": 1, "UNDELIVERABLE": 2, "DELIVERED": 3, "EXPIRED": 4, "REJECTED": 5}


def _error(status: int, code: str, text: str) -> Reply:
    return Reply({"errorCode": code, "description": text, "action": "", "violations": []}, status)


def _status(group: str, name: str) -> dict[str, object]:
    return {"groupId": GROUPS[group], "groupName": group, "name": name, "description": name.title()}


def _answer(message_id: str, group: str, name: str) -> Reply:
    message = {"messageId": message_id, "status": _status(group, name), "destination": "…"}
    return Reply({"bulkId": "sandbox", "messages": [message]})


def _read(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    destination = nested(document, "messages", 0, "destinations", 0)
    to, refusal = string(destination, "to"), None
    reference = string(destination, "messageId")
    if is_refused(to):
        refusal = _answer(reference, "REJECTED", "REJECTED_DESTINATION")
    elif not string(document, "messages", 0, "sender"):
        refusal = _error(400, "E400", "sender is required")
    elif not string(document, "messages", 0, "content", "text"):
        refusal = _error(400, "E400", "text is required")
    return Received(reference, with_plus(to), refusal)


def _reply(outcome: Outcome, reference: str, _number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _answer(reference, "REJECTED", "REJECTED_NETWORK")
        case Outcome.THROTTLED:
            return _error(429, "TOO_MANY_REQUESTS", "Too many requests.")
        case _:
            return _answer(reference, "PENDING", "PENDING_ACCEPTED")


def _message_id(reply: Reply) -> str:
    document: Any = reply.document
    return str(document["messages"][0]["messageId"])


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    if (method, path) != ("GET", "/sms/3/logs"):
        return None
    asked = query.get("messageId")
    return {
        "results": [
            {"messageId": each.message_id, "destination": each.to.lstrip("+"),
             "status": _status("PENDING", "PENDING_ENROUTE")}
            for each in newest if each.message_id == asked
        ]
    }  # fmt: skip


_WORDS: Final[Mapping[Event, tuple[str, str, int, str, bool]]] = {
    Event.DELIVERED: ("DELIVERED", "DELIVERED_TO_HANDSET", 0, "NO_ERROR", False),
    Event.BOUNCED: (
        "UNDELIVERABLE", "UNDELIVERABLE_NOT_DELIVERED", 1, "EC_UNKNOWN_SUBSCRIBER", True,
    ),
    Event.FAILED: ("EXPIRED", "EXPIRED_EXPIRED", 0, "EC_TIMEOUT", False),
}  # fmt: skip


def _post(reports: Sequence[ProviderReport], url: str, secret: str, _at: datetime) -> Post:
    results = [_result(report) for report in reports]
    return password_post(url, msgspec.json.encode({"results": results}), secret)


def _result(report: ProviderReport) -> dict[str, object]:
    if report.event is Event.REPLIED:
        return {
            "messageId": inbound_id(report.report_id), "from": report.to.lstrip("+"),
            "to": OUR_NUMBER.lstrip("+"), "text": report.text,
            "receivedAt": report.at.isoformat(),
        }  # fmt: skip
    group, name, error_group, error, permanent = _WORDS[report.event]
    return {
        "bulkId": "sandbox", "messageId": report.message_id, "to": report.to.lstrip("+"),
        "doneAt": report.at.isoformat(), "status": _status(group, name),
        "error": {"groupId": error_group, "name": error, "permanent": permanent},
        "callbackData": report.reference,
    }  # fmt: skip


SIMULATOR = Simulator(
    Provider("infobip", "/sms/3/messages", False, _read, _reply, "App"),
    _message_id,
    harmless=(Harmless("GET", "/account/1/balance", {"balance": 1.0, "currency": "EUR"}, "App"),),
    writer=Writer(_post, frozenset(_WORDS) | {Event.REPLIED}, batches=True),
    listed=_listed,
)
