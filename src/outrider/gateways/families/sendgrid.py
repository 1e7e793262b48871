"""The `sendgrid` gateway type: e-mail through SendGrid's v3 API.

A reservation becomes `POST {gatewayUrl}/v3/mail/send` with the reference as a custom argument,
which every event repeats. The answer has no body: the message's id is the header `X-Message-Id`.
There is no send-side key, and the logs of all plans cannot be asked for custom arguments.

Sources: https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send,
https://www.twilio.com/docs/sendgrid/api-reference/mail-send/errors,
https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event,
…/tracking-events/getting-started-event-webhook-security-features.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Evidence, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.domain.webhook_signatures import TOLERANCE_SECONDS, SignatureState
from outrider.gateways.content import Content
from outrider.gateways.families.mail_provider import (
    MAIL_REASONS,
    REFERENCE_NAME,
    MailProviderGateway,
    attached,
    kept_id,
    named,
    own_headers,
    reply_to,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import ReceivedAnswer, base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.gateways.receipt_reading import (
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_unix,
    one_line,
)
from outrider.ports.receipts import Callback
from outrider.ports.target_check import CheckFinding

CREDENTIAL: Final = "webhookPublicKey"
SIGNATURE_HEADER: Final = "x-twilio-email-event-webhook-signature"
TIMESTAMP_HEADER: Final = "x-twilio-email-event-webhook-timestamp"
_SECONDS = re.compile(r"[0-9]{1,12}\Z")

SENDGRID = GatewayType(
    "sendgrid",
    Channel.EMAIL,
    MAIL_REASONS,
    evidence=Evidence(receipts=Receipts("custom argument `outrider_reference`")),
)

# An error has no code, but names the field that it is about.
OURS: Final[Reasons] = {"from": "sender_refused", "from.email": "sender_refused"}
REASONS: Final[Reasons] = {
    "personalizations.0.to": "invalid_recipient",
    "personalizations.0.to.0.email": "invalid_recipient",
    "subject": "invalid_message",
    "content": "invalid_message",
    "content.0.value": "invalid_message",
    "attachments": "invalid_message",
    "attachments.0.content": "invalid_message",
}


class _Error(msgspec.Struct):
    message: str = ""
    field: str | None = None


class _Errors(msgspec.Struct):
    errors: list[_Error] = []


_decoder = msgspec.json.Decoder(_Errors)


class SendGridGateway(MailProviderGateway):
    type = SENDGRID
    options = frozenset({"from"})
    source = "https://www.twilio.com/docs/sendgrid/api-reference/mail-send/errors"
    reasons = REASONS
    ours = OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey")
        self._base_url = base_url(target.url) / "v3"

    def mail(self, reference: IdempotencyKey, recipient: str, content: Content) -> Request:
        kind = "text/html" if content.html else "text/plain"
        document: dict[str, object] = {
            "personalizations": [{"to": [{"email": recipient}]}],
            "from": named(self.sender_of(content)),
            "subject": content.subject or "",
            "content": [{"type": kind, "value": content.body}],
            "headers": own_headers(reference, content),
            "custom_args": {REFERENCE_NAME: reference},
        }
        if answers := reply_to(content):
            document["reply_to"] = named(answers)
        if content.enclosures:
            document["attachments"] = attached(content, "filename", "content", "type")
        url = self._base_url / "mail" / "send"
        return json_request(url, document, self.bearer("apiKey"))

    def read(self, body: bytes) -> ProviderReply:
        errors = _decoder.decode(body).errors
        error = errors[0] if errors else _Error()
        return ProviderReply(None, error.field or None, error.message)

    def read_answer(self, answer: ReceivedAnswer) -> ProviderReply:
        if 200 <= answer.status < 300:
            return ProviderReply(answer.headers.get("x-message-id") or None)
        return self.read(answer.body)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://www.twilio.com/docs/sendgrid/api-reference/api-key-permissions
        question = Question(self._base_url / "scopes", self.bearer("apiKey"), "apiKey")
        return await self.ask(question, seconds)


PERMANENT_DROPS: Final = ("Bounced Address", "Unsubscribed Address", "Spam Reporting Address")


class _Event(msgspec.Struct):
    event: str
    id: str = msgspec.field(default="", name="sg_event_id")
    message_id: str = msgspec.field(default="", name="sg_message_id")
    type: str = ""
    reason: str = ""
    response: str = ""
    email: str = ""
    timestamp: float | None = None
    reference: Any = msgspec.field(default=None, name=REFERENCE_NAME)

    @property
    def meaning(self) -> tuple[ReceiptEvent | None, bool]:
        match self.event:
            case "delivered":
                return ReceiptEvent.DELIVERED, False
            case "bounce":
                # A block is about the sender or the text, and may pass.
                return ReceiptEvent.BOUNCED, self.type != "blocked"
            case "dropped":
                return ReceiptEvent.FAILED, self.reason in PERMANENT_DROPS
            case "deferred":
                return ReceiptEvent.FAILED, False
            case "open" | "click":
                return ReceiptEvent.READ, False
            case "spamreport":
                return ReceiptEvent.COMPLAINED, True
            case "unsubscribe" | "group_unsubscribe":
                return ReceiptEvent.OPTED_OUT, True
            case _:
                return None, False


_events = msgspec.json.Decoder(list[_Event])


class SendGridReader(SignedReader):
    """ECDSA over the time and the body, with the webhook's public key."""

    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        given = callback.headers.get(SIGNATURE_HEADER, "")
        sent_at = callback.headers.get(TIMESTAMP_HEADER, "")
        if not given or not sent_at:
            return SignatureState.UNSIGNED
        signed = sent_at.encode(errors="replace") + callback.body
        if not any(_is_signed(key, given, signed) for key in keys) or not _SECONDS.match(sent_at):
            return SignatureState.FORGED
        is_old = abs(now.timestamp() - int(sent_at)) > TOLERANCE_SECONDS
        return SignatureState.STALE if is_old else SignatureState.GENUINE

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        for each in _events.decode(callback.body):
            what, permanent = each.meaning
            if what is None:
                continue
            # The id that the message was accepted with, and then where it was processed.
            message_id = each.message_id.partition(".")[0]
            words = (each.type, each.reason or each.response)
            yield Receipt(
                derived_id(each.id or f"{each.event}:{each.message_id}:{each.timestamp}"),
                what,
                kept_id(each.reference),
                kept_id(message_id),
                permanent,
                one_line(" ".join(filter(None, words))),
                one_line(each.email) or None if what is ReceiptEvent.OPTED_OUT else None,
                occurred_at=None if each.timestamp is None else from_unix(each.timestamp),
            )


def _is_signed(key: bytes, signature: str, content: bytes) -> bool:
    # Imported where it is used: it costs a command's start as much as all gateways do.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    public = load_der_public_key(key)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    try:
        raw = base64.b64decode(signature.encode("ascii"), validate=True)
        public.verify(raw, content, ec.ECDSA(hashes.SHA256()))
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True


def public_keys(text: str) -> Sequence[bytes]:
    """As SendGrid shows them: base64 of a public key; several separated by blanks."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    try:
        keys = [base64.b64decode(each, validate=True) for each in text.split()]
        known = [isinstance(load_der_public_key(key), ec.EllipticCurvePublicKey) for key in keys]
    except ValueError:
        known = []
    if not known or not all(known):
        raise InvalidInput(
            "a webhookPublicKey is not the verification key of SendGrid's signed event webhook"
        )
    return keys


def receipt_reader(target: Target) -> SendGridReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return SendGridReader(ReceiptSecret(target, CREDENTIAL, public_keys))


FAMILY = Family(SENDGRID, SendGridGateway, receipt_reader)
