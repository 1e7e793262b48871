"""What providers post about a message, in each one's own format and with its own signature.

It makes the callbacks of the simulator and of the conformance suite. A family that reports nothing
has no row in `WRITERS`.
"""

import base64
import hashlib
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import format_datetime
from typing import Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import msgspec

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import signed_headers, signing_keys
from outrider.gateways.families import twilio_receipts, whatsapp_receipts
from outrider.gateways.families.resend_receipts import REFERENCE_TAG
from outrider.gateways.json_receipts import ReceiptDocument, ReceiptsDocument
from outrider.gateways.mail_reports import RETURN_HEADER
from outrider.gateways.sandbox_protocol import Post, ProviderReport, Writer
from outrider.gateways.simulators import SIMULATORS
from outrider.gateways.smtp_receipts import MAIL_TYPE

__all__ = ["WRITERS", "Post", "ProviderReport", "signed_post", "standard_post"]

Event = ReceiptEvent


def signed_post(
    protocol: str, reports: Sequence[ProviderReport], url: str, secret: str, at: datetime
) -> Post:
    """One request about these, or about the first of them if the family has no batches."""
    return WRITERS[protocol].post(reports, url, secret, at)


# sms and push: our own document.


def _json_post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    documents = [
        ReceiptDocument.of(
            Receipt(
                report.report_id,
                report.event,
                report.reference,
                report.message_id,
                report.event is Event.BOUNCED,
                "no such recipient" if report.event is Event.BOUNCED else "",
                report.to if report.event in _SAID else None,
                report.text if report.event is Event.REPLIED else None,
                report.at,
            )
        )
        for report in reports
    ]
    body = msgspec.json.encode(ReceiptsDocument(documents))
    return standard_post(url, body, "application/json", secret, at)


_SAID = frozenset({Event.REPLIED, Event.OPTED_OUT, Event.OPTED_IN})


def standard_post(
    url: str, body: bytes, content_type: str, secret: str, at: datetime, sender: str = "webhook"
) -> Post:
    keys = signing_keys(secret)[:1]
    webhook_id = f"msg_{hashlib.sha256(body).hexdigest()[:24]}"
    headers = signed_headers(keys, webhook_id, int(at.timestamp()), body)
    named = {name.replace("webhook", sender, 1): value for name, value in headers.items()}
    return Post(url, body, {"content-type": content_type, **named})


# Twilio: a form per status; incoming messages go to the number's webhook.

_CALL_WORDS: Final = {
    Event.DELIVERED: {"CallStatus": "completed", "SipResponseCode": "200"},
    Event.BOUNCED: {"CallStatus": "failed", "SipResponseCode": "404"},
    Event.FAILED: {"CallStatus": "no-answer"},
}
_MESSAGE_WORDS: Final = {
    Event.DELIVERED: {"MessageStatus": "delivered", "SmsStatus": "delivered"},
    Event.BOUNCED: {
        "MessageStatus": "undelivered", "SmsStatus": "undelivered", "ErrorCode": "30005",
    },
    Event.FAILED: {"MessageStatus": "failed", "SmsStatus": "failed", "ErrorCode": "30008"},
    Event.READ: {"MessageStatus": "read", "SmsStatus": "read"},
}  # fmt: skip


def _message_post(reports: Sequence[ProviderReport], url: str, secret: str, _at: datetime) -> Post:
    report = reports[0]
    if report.event is Event.REPLIED:
        sid = f"SM{hashlib.md5(report.report_id.encode(), usedforsecurity=False).hexdigest()}"
        form = {"MessageSid": sid, "SmsSid": sid, "SmsStatus": "received", "From": report.to}
        form |= {"To": "+15550001111", "Body": report.text}
        return _twilio_post(_without_query(url), form, secret)
    form = {"MessageSid": report.message_id, "SmsSid": report.message_id, "To": report.to}
    return _twilio_post(url, form | _MESSAGE_WORDS[report.event], secret)


def _call_post(reports: Sequence[ProviderReport], url: str, secret: str, _at: datetime) -> Post:
    report = reports[0]
    form = {"CallSid": report.message_id, "To": report.to, "Timestamp": format_datetime(report.at)}
    return _twilio_post(url, form | _CALL_WORDS[report.event], secret)


def _twilio_post(url: str, form: Mapping[str, str], secret: str) -> Post:
    signature = twilio_receipts.signature(secret.split()[0].encode(), url, list(form.items()))
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        twilio_receipts.SIGNATURE_HEADER: signature,
    }
    return Post(url, urlencode(form).encode(), headers)


def _without_query(url: str) -> str:
    return urlunsplit(urlsplit(url)._replace(query=""))


# Resend: one event per request, signed by Svix.

_RESEND_WORDS: Final = {
    Event.DELIVERED: "email.delivered",
    Event.BOUNCED: "email.bounced",
    Event.COMPLAINED: "email.complained",
    Event.READ: "email.opened",
    Event.FAILED: "email.failed",
}


def _resend_post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    report = reports[0]
    data: dict[str, object] = {
        "email_id": report.message_id,
        "created_at": report.at.isoformat(),
        "to": [report.to],
        "tags": {REFERENCE_TAG: report.reference},
    }
    if report.event is Event.BOUNCED:
        words = "The recipient's address does not exist."
        data["bounce"] = {"type": "Permanent", "subType": "NoEmail", "message": words}
    elif report.event is Event.FAILED:
        data["failed"] = {"reason": "the simulator was configured to fail"}
    kind = _RESEND_WORDS[report.event]
    document = {"type": kind, "created_at": report.at.isoformat(), "data": data}
    body = msgspec.json.encode(document)
    return standard_post(url, body, "application/json", secret, at, "svix")


# WhatsApp Cloud: batches that mix statuses and messages.

_WHATSAPP_WORDS: Final = {
    Event.DELIVERED: "delivered", Event.READ: "read", Event.BOUNCED: "failed",
    Event.FAILED: "failed",
}  # fmt: skip
_WHATSAPP_ERRORS: Final = {
    Event.BOUNCED: {"code": 131026, "title": "Message undeliverable"},
    Event.FAILED: {"code": 131000, "title": "Something went wrong"},
}


def _whatsapp_post(reports: Sequence[ProviderReport], url: str, secret: str, _at: datetime) -> Post:
    statuses, messages = [], []
    for report in reports:
        phone, second = report.to.lstrip("+"), str(int(report.at.timestamp()))
        if report.event is Event.REPLIED:
            inbound_id = f"wamid.in-{report.report_id}"
            message: dict[str, object] = {
                "id": inbound_id, "from": phone, "timestamp": second, "type": "text",
                "text": {"body": report.text}, "context": {"id": report.message_id},
            }  # fmt: skip
            messages.append(message)
            continue
        status: dict[str, object] = {
            "id": report.message_id, "status": _WHATSAPP_WORDS[report.event], "timestamp": second,
            "recipient_id": phone, "biz_opaque_callback_data": report.reference,
        }  # fmt: skip
        if report.event in _WHATSAPP_ERRORS:
            status["errors"] = [_WHATSAPP_ERRORS[report.event]]
        statuses.append(status)
    value = {"messaging_product": "whatsapp", "statuses": statuses, "messages": messages}
    entry = {"id": "sandbox", "changes": [{"field": "messages", "value": value}]}
    body = msgspec.json.encode({"object": "whatsapp_business_account", "entry": [entry]})
    signature = whatsapp_receipts.signature(secret.split()[0].encode(), body)
    headers = {
        "content-type": "application/json",
        whatsapp_receipts.SIGNATURE_HEADER: signature,
    }
    return Post(url, body, headers)


# Mail: a delivery status notification, a feedback report or a reply, posted raw.


def _mail_post(reports: Sequence[ProviderReport], url: str, secret: str, at: datetime) -> Post:
    return standard_post(url, returned_mail(reports[0]), MAIL_TYPE, secret, at)


def returned_mail(report: ProviderReport) -> bytes:
    """The mail that comes back, as a mail server or a mailbox provider writes it."""
    sender = report.sender or "bounces@sandbox.example"
    head = [
        f"To: {sender}",
        f"Date: {format_datetime(report.at)}",
        f"Message-ID: <{uuid.uuid5(uuid.NAMESPACE_URL, report.report_id)}@sandbox.example>",
        "MIME-Version: 1.0",
    ]
    if report.event is Event.REPLIED:
        answer = [
            f"From: {report.to}", "Subject: Re: Offer",
            f"In-Reply-To: <{report.reference}@outrider>",
            "Content-Type: text/plain; charset=utf-8", "Content-Transfer-Encoding: base64", "",
            base64.b64encode(report.text.encode()).decode(), "",
        ]  # fmt: skip
        return "\r\n".join(head + answer).encode()
    kind = "feedback-report" if report.event is Event.COMPLAINED else "delivery-status"
    head += [
        "From: MAILER-DAEMON@sandbox.example",
        "Subject: Undelivered mail" if kind == "delivery-status" else "Subject: Complaint",
        "Auto-Submitted: auto-replied",
        f'Content-Type: multipart/report; report-type={kind}; boundary="sandbox"',
        "",
    ]
    parts = [
        ["Content-Type: text/plain", "", "This is what became of your message."],
        [f"Content-Type: message/{kind}", "", *_fields(report)],
        [
            "Content-Type: text/rfc822-headers",
            "",
            f"X-Outrider-Reference: {report.reference}",
            f"{RETURN_HEADER}: {sender}",
            f"Message-ID: <{report.reference}@outrider>",
            f"To: {report.to}",
        ],
    ]
    lines = [line for part in parts for line in ("--sandbox", *part, "")]
    return "\r\n".join([*head, *lines, "--sandbox--", ""]).encode()


def _fields(report: ProviderReport) -> list[str]:
    if report.event is Event.COMPLAINED:
        return [
            "Feedback-Type: abuse", "User-Agent: sandbox/1", "Version: 1",
            f"Original-Rcpt-To: {report.to}", f"Original-Mail-From: {report.sender}",
        ]  # fmt: skip
    words = {
        Event.DELIVERED: ("delivered", "2.0.0", "250 2.0.0 OK"),
        Event.BOUNCED: ("failed", "5.1.1", "550 5.1.1 no such mailbox"),
        Event.FAILED: ("delayed", "4.4.1", "450 4.4.1 connection timed out"),
    }
    action, status, said = words[report.event]
    return [
        "Reporting-MTA: dns; sandbox.example", "",
        f"Final-Recipient: rfc822; {report.to}", f"Action: {action}", f"Status: {status}",
        f"Diagnostic-Code: smtp; {said}",
    ]  # fmt: skip


_ALL: Final = frozenset(Event)
WRITERS: Final[Mapping[str, Writer]] = {
    "sms": Writer(_json_post, _ALL, batches=True),
    "push": Writer(_json_post, _ALL, batches=True),
    "twilio_sms": Writer(_message_post, frozenset(_MESSAGE_WORDS) | {Event.REPLIED}),
    "twilio_voice": Writer(_call_post, frozenset(_CALL_WORDS)),
    "resend": Writer(_resend_post, frozenset(_RESEND_WORDS)),
    "whatsapp_cloud": Writer(
        _whatsapp_post, frozenset(_WHATSAPP_WORDS) | {Event.REPLIED}, batches=True
    ),
    "smtp": Writer(
        _mail_post,
        frozenset({Event.DELIVERED, Event.BOUNCED, Event.FAILED, Event.COMPLAINED, Event.REPLIED}),
    ),
    **{name: each.writer for name, each in SIMULATORS.items() if each.writer is not None},
}
