"""Mailjet, as its documentation describes it (families/mailjet.py names the pages)."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.sandbox_files import files_of
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
from outrider.gateways.simulators.mail import is_refused, nested, password_post, string
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES


def _error(code: str, message: str, *related: str) -> Reply:
    error = {
        "ErrorCode": code, "StatusCode": 400, "ErrorMessage": message,
        "ErrorRelatedTo": list(related),
    }  # fmt: skip
    return Reply({"Messages": [{"Status": "error", "Errors": [error]}]}, 400)


def _read(_headers: Headers, body: bytes) -> Received:
    message = nested(decoded(body), "Messages", 0) or {}
    to, refusal = string(message, "To", 0, "Email"), None
    given = message.get("Attachments", [])
    files = files_of(given, "Filename", "Base64Content", "ContentType")
    if is_refused(to):
        refusal = _error("mj-0013", "The email address is invalid.", "To[0].Email")
    elif not string(message, "From", "Email"):
        refusal = _error("mj-0003", "From is mandatory.", "From")
    elif not (string(message, "TextPart") or string(message, "HTMLPart")):
        refusal = _error("send-0003", "At least one part must be provided.", "TextPart")
    elif files is None:
        refusal = _error("mj-0004", "Type mismatch.", "Attachments")
    return Received(string(message, "CustomID"), to, refusal, files or ())


def _reply(outcome: Outcome, reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error("mj-0006", "The subject is too long.", "Subject")
        case Outcome.THROTTLED:
            return Reply({"ErrorMessage": "Too many requests.", "StatusCode": 429}, 429)
        case _:
            sent = {"MessageID": 1_152_921_500_000_000_000 + number}
            message = {"Status": "success", "CustomID": reference, "To": [sent]}
            return Reply({"Messages": [message]})


def _message_id(reply: Reply) -> str:
    return str(nested(reply.document, "Messages", 0, "To", 0, "MessageID"))


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    if (method, path) != ("GET", "/v3/REST/message"):
        return None
    same = [each for each in newest if each.reference == query.get("CustomID", each.reference)]
    same = [each for each in same if each.at.timestamp() >= int(query.get("FromTS", "0"))]
    data = [
        {"ID": int(each.message_id), "CustomID": each.reference, "Status": "sent"} for each in same
    ]
    return {"Count": len(data), "Data": data, "Total": len(data)}


_WORDS: Final[Mapping[Event, Mapping[str, object]]] = {
    Event.DELIVERED: {"event": "sent", "smtp_reply": "250 2.0.0 OK"},
    Event.BOUNCED: {
        "event": "bounce", "hard_bounce": True, "blocked": True, "error_related_to": "recipient",
        "error": "user unknown",
    },
    Event.FAILED: {"event": "blocked", "error_related_to": "mailjet", "error": "preblocked"},
    Event.COMPLAINED: {"event": "spam", "source": "JMRPP"},
    Event.READ: {"event": "open"},
    Event.OPTED_OUT: {"event": "unsub", "mj_list_id": 1},
}  # fmt: skip


def _post(reports: Sequence[ProviderReport], url: str, secret: str, _at: datetime) -> Post:
    events = [
        {
            **_WORDS[report.event],
            "time": int(report.at.timestamp()),
            "MessageID": report.message_id,
            "email": report.to,
            "CustomID": report.reference,
        }
        for report in reports
    ]
    return password_post(url, msgspec.json.encode(events), secret)


SIMULATOR = Simulator(
    Provider("mailjet", r"/v3\.1/send", False, _read, _reply, "Basic", SANDBOX_MAIL_MAX_BYTES),
    _message_id,
    harmless=(Harmless("GET", "/v3/REST/sender", {"Count": 0, "Data": [], "Total": 0}, "Basic"),),
    writer=Writer(_post, frozenset(_WORDS), batches=True),
    listed=_listed,
)
