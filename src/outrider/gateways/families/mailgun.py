"""The `mailgun` gateway type: e-mail through Mailgun, whose event log shows our reference.

A reservation becomes `POST {gatewayUrl}/v3/{domain}/messages` with the reference as the variable
`outrider_reference`, which the event log and every webhook repeat. There is no send-side key.

Sources: https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages,
…/send/mailgun/events/get-v3-domain_name-events (kept for at least 3 days),
https://documentation.mailgun.com/docs/mailgun/user-manual/events/event-polling (complete after half
an hour).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from yarl import URL

from outrider.domain.addresses import normalise_email
from outrider.domain.evidence import Evidence, LookedUp, LookUp, Match, Receipts, unknown
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import INCOMPLETE, Content, content
from outrider.gateways.families.mail_provider import (
    MAIL_REASONS,
    REFERENCE_NAME,
    MailProviderGateway,
    basic,
    is_plain,
    own_headers,
    reply_to,
)
from outrider.gateways.families.mailgun_receipts import LogEntry, receipt_reader
from outrider.gateways.family import Family, Target
from outrider.gateways.form_parts import multipart_request
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, found_by_reference, get_json
from outrider.gateways.provider import ProviderReply, Reasons, Request, form_request
from outrider.limits.gateways import LOOK_UP_PAGE_ITEMS, LOOK_UP_PAGES
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.target_check import CheckFinding

VARIABLE_MAX_CHARACTERS: Final = 200
UNSEARCHABLE: Final = "this reference cannot be a variable"

LOOK_UP: Final = LookUp(
    Match.REFERENCE,
    delay_seconds=1_800.0,
    retention_seconds=3 * 86_400.0,
    asks="`GET /v3/{domain}/events?recipient=`",
    source="https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/events"
    "/get-v3-domain_name-events",
)
MAILGUN = GatewayType(
    "mailgun",
    Channel.EMAIL,
    MAIL_REASONS,
    evidence=Evidence(LOOK_UP, Receipts("variable `outrider_reference`")),
)

# Errors are sentences without a code: 400 and 413 are about the message, and 404 is the domain.
OURS: Final[Reasons] = {"Domain not found": "invalid_setup"}
REASONS: Final[Reasons] = {
    "'to' parameter is not a valid address. please check documentation": "invalid_recipient",
}


class _Answer(msgspec.Struct):
    id: str | None = None
    message: str = ""


class _Page(msgspec.Struct):
    items: list[LogEntry]
    paging: dict[str, str]


_decoder = msgspec.json.Decoder(_Answer)
_pages = msgspec.json.Decoder(_Page)


class MailgunGateway(MailProviderGateway):
    type = MAILGUN
    options = frozenset({"from", "domain"})
    source = "https://documentation.mailgun.com/docs/mailgun/api-reference/mg-overview"
    reasons = REASONS
    ours = OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey")
        domain = target.option("domain", self.sender.address.rpartition("@")[2])
        self._url = base_url(target.url) / "v3" / domain

    def mail(self, reference: IdempotencyKey, recipient: str, content: Content) -> Request:
        fields = {
            "from": self.sender_of(content).header("From"),
            "to": recipient,
            "subject": content.subject or "",
            "html" if content.html else "text": content.body,
        }
        own = own_headers(reference, content)
        if answers := reply_to(content):
            own["Reply-To"] = answers.header("Reply-To")
        fields |= {f"h:{name}": value for name, value in own.items()}
        if is_plain(reference, VARIABLE_MAX_CHARACTERS):
            fields[f"v:{REFERENCE_NAME}"] = reference
        url = self._url / "messages"
        if content.enclosures:
            return multipart_request(
                url, fields, "attachment", content.enclosures, self._headers(), reference
            )
        return form_request(url, fields, self._headers())

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        if answer.id is not None:
            return ProviderReply(answer.id.strip("<>"))
        return ProviderReply(None, answer.message or None, answer.message)

    def secret_values(self) -> list[str]:
        return [*super().secret_values(), self._headers()["Authorization"].partition(" ")[2]]

    def _headers(self) -> dict[str, str]:
        return {"Authorization": basic(f"api:{self.credential('apiKey')}")}

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        return await asked_one_by_one(questions, self._find_one, self.unanswered)

    async def _find_one(self, question: LookUpQuestion) -> LookedUp:
        """What was accepted for the recipient at that time; ours has our variable."""
        message = content(question)
        recipient = None if message is None else normalise_email(message.to)
        if recipient is None:
            return unknown(INCOMPLETE)
        if not is_plain(question.reference, VARIABLE_MAX_CHARACTERS):
            return unknown(UNSEARCHABLE)
        url = (self._url / "events").with_query(
            recipient=recipient, event="accepted", limit=LOOK_UP_PAGE_ITEMS, ascending="yes",
            begin=str(question.after.timestamp()), end=str(question.before.timestamp()),
        )  # fmt: skip
        found = list[str]()
        for _ in range(LOOK_UP_PAGES):
            page = await get_json(
                self._client, url, _pages, self._headers(), asked_at=question.asked_at
            )
            if any(each.recipient.lower() != recipient.lower() for each in page.items):
                raise NoAnswer("it answered about another recipient")
            found += [
                each.message_id for each in page.items if each.reference == question.reference
            ]
            if len(page.items) < LOOK_UP_PAGE_ITEMS:
                return found_by_reference(found)
            if not page.paging.get("next"):
                raise NoAnswer("it names no next page")
            url = self._url.join(URL(page.paging["next"]))
            if url.origin() != self._url.origin():
                raise NoAnswer("its next page is at another host")
        raise NoAnswer(f"more than {LOOK_UP_PAGES} pages")

    async def check(self, seconds: float) -> CheckFinding | None:
        # The log is read for look-ups, so that a key that may only send is not enough.
        url = (self._url / "events").with_query(limit=1)
        question = Question(url, self._headers(), "apiKey", ("domain",))
        return await self.ask(question, seconds)


FAMILY = Family(MAILGUN, MailgunGateway, receipt_reader)
