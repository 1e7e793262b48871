"""Postmark, as its documentation describes it (families/postmark.py names the pages)."""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.mail_provider import REFERENCE_NAME
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
    text_of,
)
from outrider.gateways.simulators.mail import is_refused, password_post, string
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES

TOKEN: Final = "X-Postmark-Server-Token"


def _error(code: int, message: str, status: int = 422) -> Reply:
    return Reply({"ErrorCode": code, "Message": message}, status)


def _read(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    to, refusal = text_of(document, "To"), None
    files = files_of(document.get("Attachments", []), "Name", "Content", "ContentType")
    if is_refused(to):
        refusal = _error(300, "Invalid 'To' address.")
    elif not text_of(document, "From"):
        refusal = _error(300, "Invalid 'From' address.")
    elif not (text_of(document, "TextBody") or text_of(document, "HtmlBody")):
        refusal = _error(300, "Provide either email TextBody or HtmlBody or both.")
    elif files is None:
        refusal = _error(300, "Invalid attachment.")
    return Received(string(document, "Metadata", REFERENCE_NAME), to, refusal, files or ())


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error(406, "You tried to send to a recipient that has been marked as inactive.")
        case Outcome.THROTTLED:
            return _error(429, "Rate limit exceeded.", 429)
        case _:
            message_id = str(uuid.UUID(int=number))
            return Reply({"MessageID": message_id, "ErrorCode": 0, "Message": "OK"})


def _message_id(reply: Reply) -> str:
    return string(reply.document, "MessageID")


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    if (method, path) != ("GET", "/messages/outbound"):
        return None
    reference = query.get(f"metadata_{REFERENCE_NAME}")
    same = [each for each in newest if reference is None or each.reference == reference]
    start, most = int(query["offset"]), int(query["count"])
    return {
        "TotalCount": len(same),
        "Messages": [
            {
                "MessageID": each.message_id, "Recipients": [each.to], "Status": "Sent",
                "ReceivedAt": each.at.isoformat(), "Metadata": {REFERENCE_NAME: each.reference},
            }
            for each in same[start : start + most]
        ],
    }  # fmt: skip


_WORDS: Final = {
    Event.DELIVERED: {"RecordType": "Delivery", "Details": "250 2.0.0 OK"},
    Event.BOUNCED: {"RecordType": "Bounce", "Type": "HardBounce", "Details": "550 5.1.1 unknown"},
    Event.FAILED: {"RecordType": "Bounce", "Type": "Transient", "Details": "delayed"},
    Event.COMPLAINED: {"RecordType": "SpamComplaint", "Type": "SpamComplaint"},
    Event.READ: {"RecordType": "Open"},
}
_TIMES: Final = {Event.DELIVERED: "DeliveredAt", Event.READ: "ReceivedAt"}


def _post(reports: Sequence[ProviderReport], url: str, secret: str, _at: datetime) -> Post:
    report = reports[0]
    document = {
        **_WORDS[report.event],
        "MessageID": report.message_id,
        "Recipient": report.to,
        "Metadata": {REFERENCE_NAME: report.reference},
        _TIMES.get(report.event, "BouncedAt"): report.at.isoformat(),
    }
    return password_post(url, msgspec.json.encode(document), secret)


SIMULATOR = Simulator(
    Provider(
        "postmark", "/email", False, _read, _reply, "", SANDBOX_MAIL_MAX_BYTES, credential=TOKEN
    ),
    _message_id,
    harmless=(Harmless("GET", "/server", {"ID": 1, "Name": "Sandbox"}, credential=TOKEN),),
    writer=Writer(_post, frozenset(_WORDS)),
    listed=_listed,
)
