"""Receipts of `plivo`: forms, signed over the URL, its query and their fields, with a nonce.

A message's own URL has our reference in its query. There is no timestamp in the signature; a replay
is harmless, because it has the id of the first.

Sources: https://www.plivo.com/docs/messaging/concepts/signature-validation,
https://www.plivo.com/docs/messaging/api/message/message-object (statuses),
https://www.plivo.com/docs/messaging/troubleshooting/error-codes.
"""

import base64
import hmac
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import SignatureState
from outrider.gateways.families.sms_provider import kept_id, reference_in, with_plus
from outrider.gateways.family import Target
from outrider.gateways.receipt_reading import (
    Malformed,
    ReceiptSecret,
    SignedReader,
    derived_id,
    kept_text,
    one_line,
    plain_keys,
)
from outrider.limits.gateways import RECEIPT_FIELDS_MAX, RECEIPT_TEXT_MAX_CHARACTERS
from outrider.ports.receipts import Callback

CREDENTIAL: Final = "authToken"
SIGNATURE_HEADER: Final = "x-plivo-signature-v3"
NONCE_HEADER: Final = "x-plivo-signature-v3-nonce"

STOPPED: Final = "200"
"""The recipient has sent STOP to this number."""
BOUNCES: Final[Mapping[str, bool]] = {
    "50": True,  # not a valid number
    "70": True,  # unavailable for good
    "80": False,  # unavailable for now
    "90": True,  # a landline, or no route to it
}
"""Errors that are about the recipient, and whether retrying is pointless."""

Fields = Sequence[tuple[str, str]]


def signature(key: bytes, url: str, fields: Fields, nonce: str) -> str:
    """base64 of HMAC-SHA256 over the URL and its sorted query, the sorted fields, and the nonce."""
    parts = urlsplit(url)
    query = "&".join(f"{name}={value}" for name, value in sorted(_fields(parts.query)))
    signed = urlunsplit(parts._replace(query="", fragment=""))
    if query or fields:
        signed += f"?{query}"
    if query and fields:
        signed += "."
    signed += "".join(name + value for name, value in sorted(fields))
    digest = hmac.digest(key, f"{signed}.{nonce}".encode(errors="replace"), "sha256")
    return base64.b64encode(digest).decode()


def _fields(text: str) -> Fields:
    return parse_qsl(
        text, keep_blank_values=True, max_num_fields=RECEIPT_FIELDS_MAX, errors="strict"
    )


class PlivoReader(SignedReader):
    def __init__(self, secret: ReceiptSecret, receipts_url: str | None) -> None:
        super().__init__(secret)
        self._receipts_url = receipts_url

    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:  # noqa: ARG002 - nothing says when it was sent
        given = callback.headers.get(SIGNATURE_HEADER, "")
        nonce = callback.headers.get(NONCE_HEADER, "")
        if not given or not nonce:
            return SignatureState.UNSIGNED
        try:
            fields = _fields(callback.body.decode())
            made = [
                signature(key, url, fields, nonce).encode()
                for url in self._urls(callback.url)
                for key in keys
            ]
        except ValueError:
            return SignatureState.FORGED
        # One for each auth token of the account.
        texts = [each.strip().encode(errors="replace") for each in given.split(",")[:8]]
        matches = [hmac.compare_digest(one, other) for one in made for other in texts]
        return SignatureState.GENUINE if any(matches) else SignatureState.FORGED

    def _urls(self, called: str) -> Iterator[str]:
        """As called, and as we gave it to Plivo, in case a proxy changed its prefix."""
        yield called
        if self._receipts_url is not None:
            query = urlsplit(called).query
            yield f"{self._receipts_url}?{query}" if query else self._receipts_url

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        form = dict(_fields(callback.body.decode()))
        message_id = one_line(form.get("MessageUUID", ""))
        if not message_id:
            raise Malformed("the form has no MessageUUID")
        if "Status" in form:
            yield from _of_message(form, message_id, reference_in(callback.url))
            return
        sender = one_line(form.get("From", ""))
        if not sender or "Text" not in form:
            raise Malformed("the form is neither a status nor a message that came in")
        yield Receipt(
            derived_id(message_id, "received"),
            ReceiptEvent.REPLIED,
            sender=with_plus(sender),
            text=kept_text(form["Text"], RECEIPT_TEXT_MAX_CHARACTERS),
        )


def _of_message(
    form: Mapping[str, str], message_id: str, reference: str | None
) -> Iterator[Receipt]:
    status, code = form["Status"].lower(), form.get("ErrorCode", "")
    event, permanent = _happened(status, code)
    if event is None:
        return
    is_good = event in (ReceiptEvent.DELIVERED, ReceiptEvent.READ)
    yield Receipt(
        derived_id(message_id, status, code),
        event,
        reference,
        # A long message has several parts; the first one's id is the one that was answered.
        kept_id(form.get("ParentMessageUUID")) or kept_id(message_id),
        permanent,
        "" if is_good else one_line(f"{status} {code}".strip()),
        with_plus(form.get("To", "")) if event is ReceiptEvent.OPTED_OUT else None,
    )


def _happened(status: str, code: str) -> tuple[ReceiptEvent | None, bool]:
    match status:
        case "delivered":
            return ReceiptEvent.DELIVERED, False
        case "read":
            return ReceiptEvent.READ, False
        case "undelivered" | "failed" | "rejected":
            if code == STOPPED:
                return ReceiptEvent.OPTED_OUT, True
            if code in BOUNCES:
                return ReceiptEvent.BOUNCED, BOUNCES[code]
            return ReceiptEvent.FAILED, False
        case _:
            return None, False


def receipt_reader(target: Target) -> PlivoReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return PlivoReader(ReceiptSecret(target, CREDENTIAL, plain_keys), target.receipts_url)
