"""Receipts of `twilio_sms` and `twilio_voice`: forms, signed over the URL and their fields.

A message's StatusCallback is the target's receipts URL with our reference in its query, which
Twilio signs along. Messages that people send to our number come to the same URL, if it is entered
as the number's or the messaging service's webhook. There is no timestamp in the signature; a replay
is harmless, because it has the id of the first.

Sources: https://www.twilio.com/docs/usage/security#validating-requests,
https://www.twilio.com/docs/messaging/guides/track-outbound-message-status,
https://www.twilio.com/docs/messaging/guides/webhook-request,
https://www.twilio.com/docs/voice/api/call-resource#statuscallback,
https://www.twilio.com/docs/api/errors (each code has its page: …/errors/30005).
"""

import base64
import hmac
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.webhook_signatures import SignatureState
from outrider.gateways.family import Target
from outrider.gateways.receipt_reading import (
    Malformed,
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_mail_date,
    kept_text,
    one_line,
    plain_keys,
)
from outrider.limits.gateways import (
    RECEIPT_FIELDS_MAX,
    RECEIPT_ID_MAX_CHARACTERS,
    RECEIPT_TEXT_MAX_CHARACTERS,
)
from outrider.ports.receipts import Callback, Verified

REFERENCE_FIELD: Final = "reference"
SIGNATURE_HEADER: Final = "x-twilio-signature"
OWN_SECRET: Final = "receiptsSecret"
"""The account's auth token, where the target signs in with an API key instead."""
NO_ANSWER: Final = "<Response/>"
"""TwiML: no reply to the sender."""

UNSUBSCRIBED: Final = "21610"
BOUNCES: Final[Mapping[str, bool]] = {
    "21211": True,  # not a valid phone number
    "21614": True,  # not a mobile number
    "21635": True,  # a landline
    "30003": False,  # unreachable handset: switched off, no service
    "30004": False,  # blocked, by the recipient or their carrier
    "30005": True,  # unknown handset: the number no longer exists
    "30006": True,  # a landline, or a carrier that this sender cannot reach
}
"""Errors that are about the recipient, and whether retrying is pointless. All others are about us,
the text or Twilio's own state."""

NOT_ANSWERED: Final = frozenset({"busy", "no-answer"})
NO_SUCH_NUMBER: Final = frozenset({"404", "410", "604"})
"""SIP: not found, gone, does not exist anywhere (RFC 3261, 21)."""

OPT_OUT_TYPES: Final = {"STOP": ReceiptEvent.OPTED_OUT, "START": ReceiptEvent.OPTED_IN}
"""What Twilio's own opt-out management did with a message:
https://www.twilio.com/docs/messaging/tutorials/advanced-opt-out"""

Form = Mapping[str, str]


def callback_url(receipts_url: str, reference: str) -> str:
    return f"{receipts_url}?{urlencode({REFERENCE_FIELD: reference})}"


def signature(key: bytes, url: str, fields: Sequence[tuple[str, str]]) -> str:
    """base64 of HMAC-SHA1 over the URL and every field's name and value, sorted by name."""
    return _digest(key, url + signed_fields(fields))


def signed_fields(fields: Sequence[tuple[str, str]]) -> str:
    return "".join(name + value for name, value in sorted(set(fields)))


def _digest(key: bytes, content: str) -> str:
    return base64.b64encode(hmac.digest(key, content.encode(errors="replace"), "sha1")).decode()


class TwilioReader(SignedReader):
    def __init__(self, secret: ReceiptSecret, receipts_url: str | None) -> None:
        super().__init__(secret)
        self._receipts_url = receipts_url

    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:  # noqa: ARG002 - nothing says when it was sent
        given = callback.headers.get(SIGNATURE_HEADER, "")
        if not given:
            return SignatureState.UNSIGNED
        try:
            fields = _fields(callback.body)
        except ValueError:
            return SignatureState.FORGED
        text, signed = given.encode(errors="replace"), signed_fields(fields)
        # The URL as called comes first, and is nearly always right.
        is_genuine = any(
            hmac.compare_digest(_digest(key, url + signed).encode(), text)
            for url in self._urls(callback.url)
            for key in keys
        )
        return SignatureState.GENUINE if is_genuine else SignatureState.FORGED

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        form = dict(_fields(callback.body))
        reference = _reference(callback.url)
        if "CallStatus" in form:
            yield from _of_call(form, reference)
        elif form.get("SmsStatus") == "received" or (
            "Body" in form and "MessageStatus" not in form
        ):
            yield _of_reply(form)
        elif "MessageStatus" in form or "SmsStatus" in form:
            yield from _of_message(form, reference)
        else:
            raise Malformed("the form has neither a message's status nor a call's")

    def answered(self, receipts: Sequence[Receipt]) -> Verified:
        return Verified(receipts, NO_ANSWER, "text/xml")

    def _urls(self, called: str) -> Iterator[str]:
        """What Twilio may have signed: the URL as called, or as we gave it to Twilio in case a
        proxy changed its prefix; with and without its port, as Twilio's own library tries it."""
        yield called
        urls = [called]
        if self._receipts_url is not None:
            query = urlsplit(called).query
            urls.append(f"{self._receipts_url}?{query}" if query else self._receipts_url)
            yield urls[-1]
        for url in urls:
            yield from _with_and_without_port(url)


def _with_and_without_port(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return
    if port is None:
        port = 443 if parts.scheme == "https" else 80
        yield urlunsplit(parts._replace(netloc=f"{host}:{port}"))
    else:
        yield urlunsplit(parts._replace(netloc=host))


def _fields(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(
        body.decode(), keep_blank_values=True, max_num_fields=RECEIPT_FIELDS_MAX, errors="strict"
    )


def _reference(url: str) -> str | None:
    """From the signed URL only."""
    query = parse_qs(urlsplit(url).query, max_num_fields=RECEIPT_FIELDS_MAX)
    reference = one_line(query.get(REFERENCE_FIELD, [""])[0], RECEIPT_ID_MAX_CHARACTERS)
    return reference or None


def _of_message(form: Form, reference: str | None) -> Iterator[Receipt]:
    sid = _sid(form, "MessageSid", "SmsSid")
    status = form.get("MessageStatus") or form.get("SmsStatus", "")
    code = form.get("ErrorCode", "")
    event, permanent = _message_event(status, code)
    if event is None:
        return
    yield Receipt(
        derived_id(sid, status, code),
        event,
        reference,
        sid,
        permanent,
        _reason(status, code, form),
        one_line(form["To"]) if event is ReceiptEvent.OPTED_OUT and "To" in form else None,
    )


def _message_event(status: str, code: str) -> tuple[ReceiptEvent | None, bool]:
    """Queued, sending, sent and other intermediate states are not reported."""
    match status:
        case "delivered":
            return ReceiptEvent.DELIVERED, False
        case "read":
            return ReceiptEvent.READ, False
        case "undelivered" | "failed":
            if code == UNSUBSCRIBED:
                return ReceiptEvent.OPTED_OUT, True
            if code in BOUNCES:
                return ReceiptEvent.BOUNCED, BOUNCES[code]
            return ReceiptEvent.FAILED, False
        case "canceled":
            return ReceiptEvent.FAILED, True
        case _:
            return None, False


def _of_call(form: Form, reference: str | None) -> Iterator[Receipt]:
    sid, status = _sid(form, "CallSid"), form["CallStatus"]
    code = form.get("SipResponseCode", "")
    permanent = False
    if status == "completed":
        event = ReceiptEvent.DELIVERED
    elif status == "failed" and code in NO_SUCH_NUMBER:
        event, permanent = ReceiptEvent.BOUNCED, True
    elif status == "failed" or status in NOT_ANSWERED:
        event = ReceiptEvent.FAILED
    elif status == "canceled":
        event, permanent = ReceiptEvent.FAILED, True
    else:
        return
    reason = "" if event is ReceiptEvent.DELIVERED else _reason(status, code, form)
    at = from_mail_date(form.get("Timestamp", ""))
    yield Receipt(derived_id(sid, status), event, reference, sid, permanent, reason, occurred_at=at)


def _of_reply(form: Form) -> Receipt:
    """The id is that of the reply, which is not a message of ours."""
    sender = one_line(form.get("From", ""))
    if not sender:
        raise Malformed("a message that came in has no sender")
    event = OPT_OUT_TYPES.get(form.get("OptOutType", ""), ReceiptEvent.REPLIED)
    text = kept_text(form.get("Body", ""), RECEIPT_TEXT_MAX_CHARACTERS)
    return Receipt(
        derived_id(_sid(form, "MessageSid", "SmsSid"), "received"), event, sender=sender, text=text
    )


def _sid(form: Form, *names: str) -> str:
    for name in names:
        if form.get(name):
            return one_line(form[name], RECEIPT_ID_MAX_CHARACTERS)
    raise Malformed(f"the form has no {names[0]}")


def _reason(status: str, code: str, form: Form) -> str:
    if status in ("delivered", "read"):
        return ""
    words = form.get("ErrorMessage", "")
    return one_line(" ".join(filter(None, (status, code, words))))


def receipt_reader(target: Target) -> TwilioReader | None:
    name = secret_name(target)
    if name is None:
        return None
    return TwilioReader(ReceiptSecret(target, name, plain_keys), target.receipts_url)


def secret_name(target: Target) -> str | None:
    """Twilio signs with the account's auth token, and never with an API key's secret."""
    if target.has_credential(OWN_SECRET):
        return OWN_SECRET
    if "apiKeySid" in target.settings.options or not target.has_credential("authToken"):
        return None
    return "authToken"
