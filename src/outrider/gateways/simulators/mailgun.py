"""Mailgun, as its documentation describes it (families/mailgun.py names the pages)."""

import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.parser import BytesParser
from email.policy import HTTP
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qs, urlencode

import msgspec

from outrider.domain.receipts import ReceiptEvent as Event
from outrider.gateways.families.mail_provider import REFERENCE_NAME
from outrider.gateways.sandbox_files import ReceivedFile, received_file
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
)
from outrider.gateways.simulators.mail import is_refused, string
from outrider.limits.gateways import SANDBOX_MAIL_MAX_BYTES

DOMAIN: Final = "sandbox.example"


def _form(headers: Headers, body: bytes) -> tuple[Mapping[str, str], Sequence[ReceivedFile]]:
    kind = headers.get("Content-Type", "")
    if not kind.startswith("multipart/form-data"):
        fields = parse_qs(body.decode("latin-1"), keep_blank_values=True)
        return {name: values[0] for name, values in fields.items()}, ()
    whole = BytesParser(policy=HTTP).parsebytes(f"Content-Type: {kind}\r\n\r\n".encode() + body)
    form, files = {}, []
    for part in whole.iter_parts():
        name = part.get_param("name", header="content-disposition")
        content = part.get_payload(decode=True)
        raw = content if isinstance(content, bytes) else b""
        if part.get_filename() is None:
            form[str(name)] = raw.decode(errors="replace")
        else:
            files.append(received_file(part.get_filename() or "", part.get_content_type(), raw))
    return form, files


def _error(message: str, status: int = 400) -> Reply:
    return Reply({"message": message}, status)


def _read(headers: Headers, body: bytes) -> Received:
    form, files = _form(headers, body)
    to, refusal = form.get("to", ""), None
    if is_refused(to):
        refusal = _error("'to' parameter is not a valid address. please check documentation")
    elif not form.get("from"):
        refusal = _error("from parameter is missing")
    elif not (form.get("text") or form.get("html")):
        refusal = _error("Need at least one of 'text' or 'html' parameters specified")
    return Received(form.get(f"v:{REFERENCE_NAME}", ""), to, refusal, files)


def _reply(outcome: Outcome, _reference: str, number: int) -> Reply:
    match outcome:
        case Outcome.REJECTED:
            return _error("The simulator is configured to fail.")
        case Outcome.THROTTLED:
            return _error("Too many requests.", 429)
        case _:
            return Reply({"id": f"<{number}@{DOMAIN}>", "message": "Queued. Thank you."})


def _message_id(reply: Reply) -> str:
    return string(reply.document, "id").strip("<>")


def _entry(message_id: str, to: str, reference: str) -> dict[str, object]:
    return {
        "recipient": to,
        "message": {"headers": {"message-id": message_id}},
        "user-variables": {REFERENCE_NAME: reference},
    }


def _listed(
    method: str, path: str, query: Query, _body: bytes, newest: Sequence[Kept]
) -> object | None:
    parts = path.strip("/").split("/")
    if method != "GET" or len(parts) != 3 or (parts[0], parts[2]) != ("v3", "events"):
        return None
    if "recipient" not in query:
        # The check of a target.
        return None
    begin, end = float(query["begin"]), float(query["end"])
    same = [each for each in reversed(newest) if each.to == query["recipient"]]
    same = [each for each in same if begin <= each.at.timestamp() <= end]
    start, most = int(query.get("page", "0")), int(query["limit"])
    return {
        "items": [
            {
                "id": f"e-{each.message_id}", "event": "accepted", "timestamp": each.at.timestamp(),
                **_entry(each.message_id, each.to, each.reference),
            }
            for each in same[start : start + most]
        ],
        "paging": {"next": f"{path}?{urlencode({**query, 'page': start + most})}"},
    }  # fmt: skip


_WORDS: Final = {
    Event.DELIVERED: {"event": "delivered"},
    Event.BOUNCED: {"event": "failed", "severity": "permanent", "reason": "bounce"},
    Event.FAILED: {"event": "failed", "severity": "temporary", "reason": "greylisted"},
    Event.COMPLAINED: {"event": "complained"},
    Event.READ: {"event": "opened"},
    Event.OPTED_OUT: {"event": "unsubscribed"},
}


def signed(secret: str, at: datetime, data: object) -> bytes:
    """A webhook's body about this event."""
    time, token = str(int(at.timestamp())), sha256(msgspec.json.encode(data)).hexdigest()[:50]
    digest = hmac.digest(secret.split()[0].encode(), f"{time}{token}".encode(), "sha256").hex()
    signature = {"timestamp": time, "token": token, "signature": digest}
    return msgspec.json.encode({"signature": signature, "event-data": data})


def _post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    report = reports[0]
    data = {
        **_WORDS[report.event],
        "id": report.report_id,
        "timestamp": report.at.timestamp(),
        "delivery-status": {"code": 250, "message": ""},
        **_entry(report.message_id, report.to, report.reference),
    }
    return Post(url, signed(secret, at, data), {"content-type": "application/json"})


SIMULATOR = Simulator(
    Provider(
        "mailgun", r"/v3/[^/]+/messages", False, _read, _reply, "Basic", SANDBOX_MAIL_MAX_BYTES
    ),
    _message_id,
    harmless=(Harmless("GET", r"/v3/[^/]+/events", {"items": [], "paging": {}}, "Basic"),),
    writer=Writer(_post, frozenset(_WORDS)),
    listed=_listed,
)
