"""The `resend` gateway type: e-mail through Resend's HTTP API, deduplicated by reference.

A reservation becomes `POST {gatewayUrl}/emails` under its own Idempotency-Key; for a day a repeat
under that key gets the first answer and sends nothing.
"""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime
from email.utils import parseaddr
from typing import Final

import msgspec
from cachetools import LRUCache

from outrider.domain.addresses import normalise_email
from outrider.domain.call_results import DUPLICATE_REFERENCE, Rejected
from outrider.domain.evidence import (
    ABSENT,
    Evidence,
    Finding,
    LookedUp,
    LookUp,
    Match,
    Receipts,
    unknown,
)
from outrider.domain.ids import IdempotencyKey
from outrider.domain.mailbox import mailbox
from outrider.domain.message_content import Enclosure
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import INCOMPLETE, Content, content
from outrider.gateways.families.resend_receipts import CREDENTIAL, receipt_reader, reference_tags
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, get_json
from outrider.gateways.mail_parts import safe_kind, safe_name
from outrider.gateways.one_click import unsubscribe_headers
from outrider.gateways.provider import (
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.limits.gateways import LOOK_UP_PAGES, LOOK_UP_TEXTS
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.target_check import CheckFinding

MEMORY: Final = ReferenceMemory.parse("24h")

LOOK_UP: Final = LookUp(
    Match.CONTENT,
    # Neither figure is documented: a list that is two minutes behind would be noticed, and the
    # shortest retention of any plan is a day.
    delay_seconds=120.0,
    retention_seconds=86_400.0,
    asks="`GET /emails`, `GET /emails/{id}`",
    source="https://resend.com/docs/api-reference/emails/list-emails",
    compares=("recipient", "time", "subject", "body"),
)

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
    # https://resend.com/docs/dashboard/emails/idempotency-keys: another payload is refused (409).
    evidence=Evidence(LOOK_UP, Receipts("tag `outrider_reference`"), needs_same_request=True),
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

EMAILS_PER_PAGE: Final = 50
"""As many as fit into one answer, each with a long subject."""


class _Listed(msgspec.Struct):
    id: str
    to: list[str]
    created_at: str
    subject: str | None = None

    @property
    def recipients(self) -> list[str]:
        """Their addresses, with or without a name before them."""
        return [parseaddr(each)[1].lower() for each in self.to]

    @property
    def at(self) -> datetime:
        try:
            at = datetime.fromisoformat(self.created_at)
        except ValueError as error:
            raise NoAnswer(f"not a time: {error}") from error
        if at.tzinfo is None:
            raise NoAnswer("a time without its zone")
        return at


class _Emails(msgspec.Struct):
    data: list[_Listed]
    has_more: bool = False


class _Email(msgspec.Struct):
    html: str | None = None
    text: str | None = None


_emails = msgspec.json.Decoder(_Emails)
_email = msgspec.json.Decoder(_Email)


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
        self._refused_sender = target.refused_sender
        mailbox(self._sender)
        self._read: LRUCache[str, _Email] = LRUCache(LOOK_UP_TEXTS)
        self._is_tagged = target.has_credential(CREDENTIAL)

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        recipient = normalise_email(content.to)
        if recipient is None:
            return Rejected("invalid_recipient", "not an email address")
        if refused := self._refused_sender(content.head):
            return refused
        kind = "html" if content.html else "text"
        document: dict[str, object] = {
            "from": content.head.sender or self._sender,
            "to": [recipient],
            "subject": content.subject or "",
            kind: content.body,
        }
        if content.head.reply_to is not None:
            document["reply_to"] = content.head.reply_to
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

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        """The team's e-mails of that time to the same recipient under the same subject; their texts
        are asked for one by one."""
        first, asked_at = min(each.after for each in questions), questions[0].asked_at
        listed = await self._sent_since(first, asked_at)
        answers = {}
        for question in questions:
            message = content(question)
            recipient = None if message is None else normalise_email(message.to)
            if message is None or recipient is None:
                answers[question.reference] = unknown(INCOMPLETE)
                continue
            same, other = list[str](), list[str]()
            for each in listed:
                is_then = question.after <= each.at <= question.before
                if is_then and recipient.lower() in each.recipients:
                    agrees = (each.subject or "") == (message.subject or "")
                    agrees = agrees and await self._has_text(each.id, message)
                    (same if agrees else other).append(each.id)
            said = ABSENT
            if same:
                agreed = "recipient, time, subject and body agree"
                said = LookedUp(Finding.FOUND, tuple(same), agreed)
            answers[question.reference] = said._replace(unclear_ids=tuple(other))
        return answers

    async def _sent_since(self, first: datetime, asked_at: datetime) -> list[_Listed]:
        query, found = {"limit": str(EMAILS_PER_PAGE)}, list[_Listed]()
        for _ in range(LOOK_UP_PAGES):
            url = self._url.with_query(query)
            page = await get_json(
                self._client, url, _emails, self.bearer("apiKey"), asked_at=asked_at
            )
            found += page.data
            if not page.has_more or (page.data and max(each.at for each in page.data) < first):
                return found
            if not page.data:
                raise NoAnswer("an empty page, and more after it")
            query["after"] = page.data[-1].id
        raise NoAnswer(f"more than {LOOK_UP_PAGES} pages")

    async def _has_text(self, email_id: str, message: Content) -> bool:
        """What cannot be read, now or later, cannot be compared."""
        try:
            email = self._read.get(email_id)
            if email is None:
                url = self._url / email_id
                email = await get_json(self._client, url, _email, self.bearer("apiKey"))
        except NoAnswer as error:
            if not error.is_final:
                raise
            return False
        self._read[email_id] = email
        text = email.html if message.html else email.text
        return (text or "").strip() == message.body.strip()

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
