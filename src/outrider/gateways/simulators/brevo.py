"""Brevo, as its documentation describes it (families/brevo.py names the pages)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.brevo import REFERENCE_HEADER
from outrider.gateways.sandbox_files import files_of
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
from outrider.gateways.simulators.mail import is_refused, password_post, string
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES

KEY: Final = "api-key"


def _error(code: str, message: str, status: int = 400) -> Reply:
    return Reply({"code": code, "message": message}, status)


def _read(_headers: Headers, body: bytes) -> Received:
    document = decoded(body)
    to, refusal = string(document, "to", 0, "email"), None
    files = files_of(document.get("attachment", []), "name", "content")
    if is_refused(to):
        refusal = _error("invalid_parameter", "email is not valid in to")
    elif not string(document, "sender", "email"):
        refusal = _error("missing_parameter", "sender is missing")
    elif not (text_of(document, "textContent") or text_of(document, "htmlContent")):
        refusal = _error("missing_parameter", "Either of htmlContent or textContent is required")
    elif files is None:
        refusal = _error("invalid_parameter", "attachment is not valid")
    return Received(string(document, "headers", REFERENCE_HEADER), to, refusal, files or ())


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error("invalid_parameter", "The simulator is configured to fail.")
        case Outcome.DUPLICATE_REFERENCE:
            return _error("duplicate_request", "The idempotencyKey was used before.")
        case Outcome.THROTTLED:
            return _error("too_many_requests", "Too many requests.", 429)
        case _:
            return Reply({"messageId": f"<{number}@smtp-relay.sandbox.example>"}, 201)


def _message_id(reply: Reply) -> str:
    return string(reply.document, "messageId")


_WORDS: Final = {
    Event.DELIVERED: "delivered",
    Event.BOUNCED: "hard_bounce",
    Event.FAILED: "deferred",
    Event.COMPLAINED: "spam",
    Event.READ: "unique_opened",
    Event.OPTED_OUT: "unsubscribed",
}


def _post(reports: Sequence[ProviderReport], url: str, secret: str, _at: datetime) -> Post:
    report = reports[0]
    document = {
        "event": _WORDS[report.event],
        "email": report.to,
        "message-id": report.message_id,
        REFERENCE_HEADER: report.reference,
        "ts_epoch": int(report.at.timestamp() * 1000),
        "reason": "550 5.1.1 unknown" if report.event is Event.BOUNCED else "",
    }
    return password_post(url, msgspec.json.encode(document), secret)


SIMULATOR = Simulator(
    Provider(
        "brevo", "/v3/smtp/email", True, _read, _reply, "", SANDBOX_MAIL_MAX_BYTES, credential=KEY
    ),
    _message_id,
    harmless=(Harmless("GET", "/v3/account", {"email": "a@b.example"}, credential=KEY),),
    writer=Writer(_post, frozenset(_WORDS)),
)
