"""The `resend` gateway type: e-mail through Resend's HTTP API, deduplicated by reference.

A reservation becomes `POST {gatewayUrl}/emails` under its own Idempotency-Key; for a day a repeat
under that key gets the first answer and sends nothing.
"""

import base64
from typing import Final

import msgspec

from outrider.domain.addresses import normalise_email
from outrider.domain.call_results import DUPLICATE_REFERENCE, Rejected
from outrider.domain.ids import IdempotencyKey
from outrider.domain.message_content import Enclosure
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.mail_parts import safe_kind, safe_name
from outrider.gateways.mailbox import mailbox
from outrider.gateways.one_click import unsubscribe_headers
from outrider.gateways.provider import (
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.gateways.resend_receipts import CREDENTIAL, receipt_reader, reference_tags
from outrider.ports.target_check import CheckFinding

MEMORY: Final = ReferenceMemory.parse("24h")

RESEND = GatewayType(
    "resend",
    Channel.EMAIL,
    frozenset(
        {
            "invalid_request",
            "invalid_recipient",
            "invalid_message",
            "unauthorized",
            DUPLICATE_REFERENCE,
        }
    ),
    remembers=MEMORY,
)

OURS: Final[Reasons] = {
    "missing_api_key": "unauthorized",
    "invalid_api_key": "unauthorized",
    "restricted_api_key": "unauthorized",
    "invalid_from_address": "sender_refused",
}
REASONS: Final[Reasons] = {
    "missing_required_field": "invalid_request",
    "invalid_parameter": "invalid_request",
    "invalid_idempotency_key": "invalid_request",
    "invalid_attachment": "invalid_message",
    "security_error": "invalid_message",
    # The key belongs to a message that was sent with other content, so the first one counts.
    "invalid_idempotent_request": DUPLICATE_REFERENCE,
}


class _Answer(msgspec.Struct):
    id: str | None = None
    name: str | None = None
    message: str = ""


_decoder = msgspec.json.Decoder(_Answer)


class ResendGateway(ProviderGateway):
    type = RESEND
    options = frozenset({"from"})
    source = "https://resend.com/docs/api-reference/errors"
    reasons = REASONS
    ours = OURS
    unfinished = frozenset({"concurrent_idempotent_requests"})
    carries_enclosures = True

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey")
        self._url = base_url(target.url) / "emails"
        self._sender = target.option("from", target.mail_from)
        mailbox(self._sender)
        self._is_tagged = target.has_credential(CREDENTIAL)

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        recipient = normalise_email(content.to)
        if recipient is None:
            return Rejected("invalid_recipient", "not an email address")
        kind = "html" if content.html else "text"
        document: dict[str, object] = {
            "from": self._sender,
            "to": [recipient],
            "subject": content.subject or "",
            kind: content.body,
        }
        if content.enclosures:
            document["attachments"] = [_attachment(each) for each in content.enclosures]
        if content.unsubscribe_url is not None:
            document["headers"] = unsubscribe_headers(content.unsubscribe_url)
        if self._is_tagged and (tags := reference_tags(reference)):
            document["tags"] = tags
        headers = {"Idempotency-Key": reference, **self.bearer("apiKey")}
        return json_request(self._url, document, headers)

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.id, answer.name, answer.message)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://resend.com/docs/api-reference/domains/list-domains
        url = (self._url.parent / "domains").with_query(limit=1)
        # https://resend.com/docs/api-reference/errors: a key that is restricted to sending.
        can_only_send = frozenset({"restricted_api_key"})
        question = Question(url, self.bearer("apiKey"), "apiKey", can_only_send=can_only_send)
        return await self.ask(question, seconds)


def _attachment(enclosure: Enclosure) -> dict[str, str]:
    return {
        "filename": safe_name(enclosure.name),
        "content": base64.b64encode(enclosure.content).decode("ascii"),
        "content_type": safe_kind(enclosure.content_type),
    }


FAMILY = Family(RESEND, ResendGateway, receipt_reader)
