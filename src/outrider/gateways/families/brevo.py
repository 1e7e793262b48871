"""The `brevo` gateway type: e-mail through Brevo's transactional API, with a key of a quarter of an
hour.

A reservation becomes `POST {gatewayUrl}/v3/smtp/email` under an `idempotencyKey`, which has to be a
UUID and is derived from the reference. The reference itself is the header `X-Mailin-custom`, which
every event repeats.

Sources: https://developers.brevo.com/reference/sendtransacemail,
https://developers.brevo.com/docs/heterogenous-versions-batch-emails (a key is processed once in 30
minutes), https://developers.brevo.com/changelog/email-api-now-supports-idempotency (in 15: the
shorter promise counts), https://developers.brevo.com/docs/transactional-webhooks,
https://developers.brevo.com/docs/secure-your-webhooks.
"""

import uuid
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from outrider.domain.call_results import DUPLICATE_REFERENCE
from outrider.domain.evidence import Evidence, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.families.mail_provider import (
    MAIL_REASONS,
    MailProviderGateway,
    PasswordReader,
    attached,
    kept_id,
    named,
    own_headers,
    password_keys,
    reply_to,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.gateways.receipt_reading import derived_id, from_unix, one_line
from outrider.ports.receipts import Callback
from outrider.ports.target_check import CheckFinding

REFERENCE_HEADER: Final = "X-Mailin-custom"
BREVO = GatewayType(
    "brevo",
    Channel.EMAIL,
    MAIL_REASONS | {DUPLICATE_REFERENCE},
    remembers=ReferenceMemory.parse("15m"),
    evidence=Evidence(receipts=Receipts(f"`{REFERENCE_HEADER}`")),
)

OURS: Final[Reasons] = {
    "unauthorized": "unauthorized",
    "permission_denied": "unauthorized",
    "account_under_validation": "account_refused",
    "not_enough_credits": "account_refused",
}
REASONS: Final[Reasons] = {
    "missing_parameter": "invalid_request",
    "invalid_parameter": "invalid_request",
    "out_of_range": "invalid_request",
    "bad_request": "invalid_request",
    # The key is known: its first request was processed.
    "duplicate_request": DUPLICATE_REFERENCE,
    "duplicate_parameter": DUPLICATE_REFERENCE,
}


class _Answer(msgspec.Struct, rename="camel"):
    message_id: str | None = None
    code: str | None = None
    message: str = ""


_decoder = msgspec.json.Decoder(_Answer)


def key_of(reference: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, reference))


class BrevoGateway(MailProviderGateway):
    type = BREVO
    options = frozenset({"from"})
    source = "https://developers.brevo.com/docs/how-it-works#error-codes"
    reasons = REASONS
    ours = OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey")
        self._base_url = base_url(target.url) / "v3"

    def mail(self, reference: IdempotencyKey, recipient: str, content: Content) -> Request:
        headers = own_headers(reference, content)
        headers |= {"idempotencyKey": key_of(reference), REFERENCE_HEADER: reference}
        document: dict[str, object] = {
            "sender": named(self.sender_of(content)),
            "to": [{"email": recipient}],
            "subject": content.subject or "",
            "htmlContent" if content.html else "textContent": content.body,
            "headers": headers,
        }
        if answers := reply_to(content):
            document["replyTo"] = named(answers)
        if content.enclosures:
            document["attachment"] = attached(content, "name", "content")
        return json_request(self._base_url / "smtp" / "email", document, self._headers())

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.message_id, answer.code, answer.message)

    def _headers(self) -> dict[str, str]:
        return {"api-key": self.credential("apiKey")}

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://developers.brevo.com/reference/getaccount
        question = Question(self._base_url / "account", self._headers(), "apiKey")
        return await self.ask(question, seconds)


EVENTS: Final = {
    "delivered": (ReceiptEvent.DELIVERED, False),
    "hard_bounce": (ReceiptEvent.BOUNCED, True),
    "soft_bounce": (ReceiptEvent.BOUNCED, False),
    "invalid_email": (ReceiptEvent.BOUNCED, True),
    "blocked": (ReceiptEvent.FAILED, True),
    "error": (ReceiptEvent.FAILED, True),
    "deferred": (ReceiptEvent.FAILED, False),
    "spam": (ReceiptEvent.COMPLAINED, True),
    "unsubscribed": (ReceiptEvent.OPTED_OUT, True),
    "unsubscribe": (ReceiptEvent.OPTED_OUT, True),
    "opened": (ReceiptEvent.READ, False),
    "unique_opened": (ReceiptEvent.READ, False),
    "click": (ReceiptEvent.READ, False),
}
"""Each with whether it is final. `request` says only that Brevo took the message; `proxy_open` is a
machine's."""


class _Event(msgspec.Struct):
    event: str
    email: str = ""
    reason: str | None = None
    ts_epoch: int | None = None
    """Milliseconds; the other times are in the account's own zone."""
    ts_event: int | None = None
    message_id: Any = msgspec.field(default=None, name="message-id")
    reference: Any = msgspec.field(default=None, name=REFERENCE_HEADER)


_events = msgspec.json.Decoder(_Event)


class BrevoReader(PasswordReader):
    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        event = _events.decode(callback.body)
        if event.event not in EVENTS:
            return
        what, permanent = EVENTS[event.event]
        milliseconds = event.ts_epoch
        time = str(milliseconds if milliseconds is not None else event.ts_event)
        yield Receipt(
            derived_id(event.event, str(event.message_id), event.email, time),
            what,
            kept_id(event.reference),
            kept_id(event.message_id),
            permanent,
            one_line(event.reason or ""),
            one_line(event.email) or None if what is ReceiptEvent.OPTED_OUT else None,
            occurred_at=None if milliseconds is None else from_unix(milliseconds / 1000),
        )


def receipt_reader(target: Target) -> BrevoReader | None:
    keys = password_keys(target)
    return None if keys is None else BrevoReader(keys)


FAMILY = Family(BREVO, BrevoGateway, receipt_reader)
