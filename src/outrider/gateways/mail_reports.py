"""What a returned mail says: delivery status notifications, complaints, replies.

Read with the standard library's `email`, from the machine-readable parts only: RFC 3464 (delivery
status), RFC 5965 (feedback reports, ARF), RFC 3834 (automatic replies). A report in prose proves
nothing.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from email.utils import parseaddr
from typing import Final

from outrider.domain.bounce_codes import best_status, is_hard
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.gateways.receipt_reading import (
    derived_id,
    from_mail_date,
    kept_text,
    one_line,
)
from outrider.limits.gateways import (
    RECEIPT_ADDRESS_MAX_CHARACTERS,
    RECEIPT_ID_MAX_CHARACTERS,
    RECEIPT_TEXT_MAX_CHARACTERS,
    RECEIPTS_PER_CALLBACK_MAX,
)

REFERENCE_IN_ID_CHARACTERS: Final = 16
REFERENCE_HEADER: Final = "X-Outrider-Reference"
RETURN_HEADER: Final = "X-Outrider-Return"
"""The return path with its token, for complaints: those do not go to the envelope's sender."""

_MESSAGE_ID = re.compile(r"<(?:([0-9a-f]{64})@[!-;=?-~]{1,255}|([!-;=?-~]{1,200})@outrider)>")
"""At the sender's domain; earlier versions wrote `@outrider`."""
_QUOTED = re.compile(r"^\s*(>|On .{1,200} wrote:\s*$|-{2,}\s*Original Message)", re.IGNORECASE)

COMPLAINTS: Final = frozenset({"abuse", "fraud"})
OPT_OUTS: Final = frozenset({"opt-out", "opt-out-list"})
"""Feedback-Type (https://www.iana.org/assignments/marf-parameters/). `not-spam` is the opposite of
a complaint; `virus`, `auth-failure`, `dmarc` and `other` are about mail that need not be ours."""

ACTIONS: Final = {
    "failed": ReceiptEvent.BOUNCED,
    "delayed": ReceiptEvent.FAILED,
    "delivered": ReceiptEvent.DELIVERED,
    "expanded": ReceiptEvent.DELIVERED,
}
"""RFC 3464, 2.3.3. `relayed` went to a system that reports nothing, so nothing is known."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A parsed mail; `addresses` may hold a return path with its token, best evidence first."""

    receipts: Sequence[Receipt]
    """Without a reference if the mail's own text is the only evidence for it."""
    addresses: Sequence[str]
    reference: str | None
    """What the returned message itself says, which anyone could have written."""

    def proved(self, reference: str) -> list[Receipt]:
        """Only if one of our tokens says which message it is about. A complaint comes from our
        message's recipient, whom its item names; a reply may come from somebody it was forwarded
        to. One mail may be addressed to several messages, and is then a receipt for each."""
        return [
            replace(
                receipt,
                receipt_id=derived_id(receipt.receipt_id, reference[:REFERENCE_IN_ID_CHARACTERS]),
                reference=reference,
                sender=receipt.sender if receipt.event is ReceiptEvent.REPLIED else None,
            )
            for receipt in self.receipts
        ]

    def unproved(self) -> list[Receipt]:
        """If nothing but the mail itself says so: anyone may have written the name of another, whom
        a STOP or a complaint would silence and a START would expose. A reference names nobody."""
        return [replace(each, reference=self.reference, sender=None) for each in self.receipts]


def read_mail(raw: bytes) -> Returned:
    """Never raises: mail that is not a report has no receipts. A mail that raised would be retried
    for days, and block a whole Maildir."""
    try:
        return _read(raw)
    except RecursionError:
        # No server's report has parts so deep within each other.
        return Returned((), (), None)


def _read(raw: bytes) -> Returned:
    mail = BytesParser(policy=compat32).parsebytes(raw)
    mail_id = _mail_id(mail, raw)
    kind = str(mail.get_param("report-type") or "").lower()
    if mail.get_content_type() == "multipart/report" and kind == "delivery-status":
        receipts = list(_of_delivery_status(mail, mail_id))
    elif mail.get_content_type() == "multipart/report" and kind == "feedback-report":
        receipts = list(_of_feedback(mail, mail_id))
    else:
        receipts = list(_of_answer(mail, mail_id))
    returned = _returned_headers(mail)
    addresses = [*_addresses_of(mail), *_reported_senders(mail)]
    if returned is not None:
        addresses += _headers(returned, RETURN_HEADER, "Return-Path")
    return Returned(receipts[:RECEIPTS_PER_CALLBACK_MAX], addresses, _reference(mail, returned))


def _of_delivery_status(mail: Message, mail_id: str) -> Iterator[Receipt]:
    for group in _fields_of(mail, "message/delivery-status"):
        action = _header(group, "Action").lower().partition(" ")[0]
        event = ACTIONS.get(action)
        if event is None or "Final-Recipient" not in group:
            # The first group is about the message; relayed says nothing.
            continue
        recipient = _header(group, "Final-Recipient").rpartition(";")[2].strip()
        diagnostic = _header(group, "Diagnostic-Code")
        status = best_status(_header(group, "Status"), diagnostic)
        hard = event is ReceiptEvent.BOUNCED and is_hard(status)
        reply = diagnostic.partition(";")[2].strip() or diagnostic
        words = "" if event is ReceiptEvent.DELIVERED else f"{status or action} {reply}"
        yield Receipt(
            derived_id("dsn", mail_id, action, recipient),
            event,
            permanent=hard,
            reason=one_line(words),
            occurred_at=from_mail_date(
                _header(group, "Last-Attempt-Date") or _header(mail, "Date")
            ),
        )


def _of_feedback(mail: Message, mail_id: str) -> Iterator[Receipt]:
    for fields in _fields_of(mail, "message/feedback-report"):
        kind = _header(fields, "Feedback-Type").lower()
        if kind in COMPLAINTS:
            event = ReceiptEvent.COMPLAINED
        elif kind in OPT_OUTS:
            event = ReceiptEvent.OPTED_OUT
        else:
            continue
        complainer = parseaddr(_header(fields, "Original-Rcpt-To"))[1]
        yield Receipt(
            derived_id("arf", mail_id, kind),
            event,
            permanent=True,
            reason=one_line(f"{kind} reported by {_header(fields, 'Reporting-MTA')}".strip()),
            sender=one_line(complainer, RECEIPT_ADDRESS_MAX_CHARACTERS) or None,
            occurred_at=from_mail_date(_header(fields, "Arrival-Date") or _header(mail, "Date")),
        )


def _of_answer(mail: Message, mail_id: str) -> Iterator[Receipt]:
    """A person's reply, not an automatic one: out of office, a list, a bounce in prose."""
    sender = parseaddr(_header(mail, "From"))[1]
    if not sender or _is_automatic(mail):
        return
    yield Receipt(
        derived_id("mail", mail_id),
        ReceiptEvent.REPLIED,
        sender=one_line(sender, RECEIPT_ADDRESS_MAX_CHARACTERS),
        text=kept_text(_words_of(mail), RECEIPT_TEXT_MAX_CHARACTERS),
        occurred_at=from_mail_date(_header(mail, "Date")),
    )


def _is_automatic(mail: Message) -> bool:
    if _header(mail, "Auto-Submitted").lower().partition(";")[0].strip() not in ("", "no"):
        return True
    if (
        _header(mail, "Return-Path").strip() == "<>"
        or mail.get_content_type() == "multipart/report"
    ):
        return True
    if _header(mail, "Precedence").lower() in ("bulk", "junk", "list", "auto_reply"):
        return True
    # Exchange and older responders, which predate RFC 3834.
    return any(
        name in mail for name in ("X-Auto-Response-Suppress", "X-Autoreply", "X-Autorespond")
    )


def _words_of(mail: Message) -> str:
    """The reply itself, without quoted text."""
    for part in mail.walk():
        if part.get_content_type() == "text/plain" and part.get_filename() is None:
            raw = part.get_payload(decode=True)
            if not isinstance(raw, bytes):
                return ""
            try:
                text = raw.decode(part.get_content_charset("utf-8"), "replace")
            except (LookupError, ValueError):
                # A codec that is not there, that replaces nothing, or no name of one.
                text = raw.decode("utf-8", "replace")
            return _before_the_quote(text)
    return ""


def _before_the_quote(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        if _QUOTED.match(line) or line == "-- ":
            break
        lines.append(line)
    return "\n".join(lines)


def _fields_of(mail: Message, content_type: str) -> Iterator[Message]:
    """The groups of fields in the parts of this type; `email` reads each group as headers."""
    for part in _parts(mail, content_type):
        payload = part.get_payload()
        if isinstance(payload, list):
            yield from (group for group in payload if isinstance(group, Message))


def _returned_headers(mail: Message) -> Message | None:
    """The message that the report is about, or its headers."""
    for part in _parts(mail, "message/rfc822"):
        payload = part.get_payload()
        if isinstance(payload, list) and payload and isinstance(payload[0], Message):
            return payload[0]
    for part in _parts(mail, "text/rfc822-headers"):
        raw = part.get_payload(decode=True)
        if isinstance(raw, bytes):
            return BytesParser(policy=compat32).parsebytes(raw, headersonly=True)
    return None


def _parts(mail: Message, content_type: str) -> Iterator[Message]:
    """From the report itself, not from what it returns."""
    if mail.is_multipart() and mail.get_content_type().startswith("multipart/"):
        for part in mail.get_payload():
            if isinstance(part, Message) and part.get_content_type() == content_type:
                yield part


def _addresses_of(mail: Message) -> Iterator[str]:
    """The recipients of this mail, per its delivering server and its own header."""
    for value in _headers(mail, "X-Original-To", "Delivered-To", "Envelope-To", "To"):
        yield parseaddr(value)[1]


def _reported_senders(mail: Message) -> Iterator[str]:
    for fields in _fields_of(mail, "message/feedback-report"):
        for value in _headers(fields, "Original-Mail-From"):
            yield parseaddr(value)[1]


def _reference(mail: Message, returned: Message | None) -> str | None:
    """Of the returned message; for a reply, of the message it replies to."""
    if returned is not None:
        given = _header(returned, REFERENCE_HEADER).strip()
        if given:
            return one_line(given, RECEIPT_ID_MAX_CHARACTERS)
        return _in_message_ids(_header(returned, "Message-ID"))
    return _in_message_ids(f"{_header(mail, 'In-Reply-To')} {_header(mail, 'References')}")


def _in_message_ids(text: str) -> str | None:
    match = _MESSAGE_ID.search(text)
    return None if match is None else match[1] or match[2]


def _mail_id(mail: Message, raw: bytes) -> str:
    """The same for the same mail, even if a server delivers it twice with different trace
    headers."""
    given = _header(mail, "Message-ID").strip()
    return hashlib.sha256(given.encode() if given else raw).hexdigest()[:32]


def _headers(message: Message, *names: str) -> Iterator[str]:
    for name in names:
        for value in message.get_all(name, []):
            yield str(value)


def _header(message: Message, name: str) -> str:
    """On one line. A header may hold bytes that are not text, which `email` returns as an
    object."""
    return one_line(str(message.get(name, "")).encode(errors="replace").decode(), 4_000)
