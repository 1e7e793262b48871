"""The `mailjet` gateway type: e-mail through Mailjet's Send API 3.1, which can be asked for our
reference.

A reservation becomes `POST {gatewayUrl}/v3.1/send` with one message and the reference as its
`CustomID`, by which messages can be found and which every event repeats. There is no send-side key.

Sources: https://dev.mailjet.com/email/guides/send-api-v31/, …/email/reference/messages/,
https://github.com/mailjet/api-documentation (guides: send-api, event-api).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from outrider.domain.evidence import Evidence, LookedUp, LookUp, Match, Receipts, unknown
from outrider.domain.ids import IdempotencyKey
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.families.mail_provider import (
    MAIL_REASONS,
    MailProviderGateway,
    PasswordReader,
    attached,
    basic,
    is_plain,
    kept_id,
    named,
    own_headers,
    password_keys,
    reply_to,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, found_by_reference, get_json
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.gateways.receipt_reading import derived_id, from_unix, one_line
from outrider.limits.gateways import LOOK_UP_PAGE_ITEMS
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.receipts import Callback
from outrider.ports.target_check import CheckFinding

CUSTOM_ID_MAX_CHARACTERS: Final = 200
UNSEARCHABLE: Final = "this reference cannot be a CustomID"

LOOK_UP: Final = LookUp(
    Match.REFERENCE,
    # Neither is documented: a list that is five minutes behind would be noticed, and messages of
    # three days ago are shown on every plan.
    delay_seconds=300.0,
    retention_seconds=3 * 86_400.0,
    asks="`GET /v3/REST/message?CustomID=`",
    source="https://dev.mailjet.com/email/guides/send-api-v31/#send-with-a-custom-id",
)
MAILJET = GatewayType(
    "mailjet", Channel.EMAIL, MAIL_REASONS, evidence=Evidence(LOOK_UP, Receipts("`CustomID`"))
)

NO_ADDRESS: Final = "mj-0013"
OF_THE_SENDER: Final = f"{NO_ADDRESS} of From"
OURS: Final[Reasons] = {
    "mj-0001": "unauthorized",
    "mj-0015": "unauthorized",
    "send-0006": "sender_refused",
    "send-0007": "sender_refused",
    "send-0008": "sender_refused",
    OF_THE_SENDER: "sender_refused",
}
REASONS: Final[Reasons] = {
    "mj-0002": "invalid_request",
    "mj-0003": "invalid_request",
    "mj-0004": "invalid_request",
    "mj-0005": "invalid_request",
    "mj-0006": "invalid_message",
    "mj-0007": "invalid_request",
    "mj-0008": "invalid_message",
    "mj-0011": "invalid_message",
    "mj-0012": "invalid_message",
    NO_ADDRESS: "invalid_recipient",
    "send-0003": "invalid_message",
    "send-0011": "invalid_request",
}


class _Error(msgspec.Struct, rename="pascal"):
    error_code: str = ""
    error_message: str = ""
    error_related_to: list[str] = []

    @property
    def code(self) -> str:
        is_senders = any(each.startswith("From") for each in self.error_related_to)
        return OF_THE_SENDER if is_senders and self.error_code == NO_ADDRESS else self.error_code


class _Sent(msgspec.Struct):
    message_id: int = msgspec.field(name="MessageID")


class _Message(msgspec.Struct, rename="pascal"):
    status: str = ""
    to: list[_Sent] = []
    errors: list[_Error] = []


class _Answer(_Error, rename="pascal"):
    """The whole call's error, or the one message's."""

    messages: list[_Message] = []


class _Known(msgspec.Struct):
    id: int = msgspec.field(name="ID")
    custom_id: str | None = msgspec.field(default=None, name="CustomID")


class _Page(msgspec.Struct, rename="pascal"):
    count: int
    data: list[_Known]


_decoder = msgspec.json.Decoder(_Answer)
_pages = msgspec.json.Decoder(_Page)


class MailjetGateway(MailProviderGateway):
    type = MAILJET
    options = frozenset({"from"})
    source = "https://dev.mailjet.com/email/guides/send-api-v31/#send-api-errors"
    reasons = REASONS
    ours = OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey", "secretKey")
        self._base_url = base_url(target.url)

    def mail(self, reference: IdempotencyKey, recipient: str, content: Content) -> Request:
        message: dict[str, object] = {
            "From": named(self.sender_of(content), "Email", "Name"),
            "To": [{"Email": recipient}],
            "Subject": content.subject or "",
            "HTMLPart" if content.html else "TextPart": content.body,
            "Headers": own_headers(reference, content),
        }
        if is_plain(reference, CUSTOM_ID_MAX_CHARACTERS):
            message["CustomID"] = reference
        if answers := reply_to(content):
            message["ReplyTo"] = named(answers, "Email", "Name")
        if content.enclosures:
            message["Attachments"] = attached(content, "Filename", "Base64Content", "ContentType")
        url = self._base_url / "v3.1" / "send"
        return json_request(url, {"Messages": [message]}, self._headers())

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        message = answer.messages[0] if answer.messages else _Message()
        if message.to and not message.errors:
            return ProviderReply(str(message.to[0].message_id))
        error = message.errors[0] if message.errors else answer
        return ProviderReply(None, error.code or None, error.error_message)

    def secret_values(self) -> list[str]:
        return [*super().secret_values(), self._headers()["Authorization"].partition(" ")[2]]

    def _headers(self) -> dict[str, str]:
        return {
            "Authorization": basic(f"{self.credential('apiKey')}:{self.credential('secretKey')}")
        }

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        return await asked_one_by_one(questions, self._find_one, self.unanswered)

    async def _find_one(self, question: LookUpQuestion) -> LookedUp:
        reference = question.reference
        if not is_plain(reference, CUSTOM_ID_MAX_CHARACTERS):
            return unknown(UNSEARCHABLE)
        query = {
            "CustomID": reference, "ShowCustomID": "true", "Limit": str(LOOK_UP_PAGE_ITEMS),
            "FromTS": str(int(question.after.timestamp())),
        }  # fmt: skip
        url = (self._base_url / "v3" / "REST" / "message").with_query(query)
        page = await get_json(
            self._client, url, _pages, self._headers(), asked_at=question.asked_at
        )
        if any(each.custom_id not in (reference, None) for each in page.data):
            raise NoAnswer("it answered about another message")
        if page.count != len(page.data):
            raise NoAnswer("it counts other messages than it shows")
        return found_by_reference([str(each.id) for each in page.data])

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://dev.mailjet.com/email/reference/sender-addresses-and-domains/sender/
        url = (self._base_url / "v3" / "REST" / "sender").with_query(Limit=1)
        return await self.ask(Question(url, self._headers(), "secretKey"), seconds)


EVENTS: Final = {
    "sent": ReceiptEvent.DELIVERED,
    "open": ReceiptEvent.READ,
    "click": ReceiptEvent.READ,
    "bounce": ReceiptEvent.BOUNCED,
    "blocked": ReceiptEvent.FAILED,
    "spam": ReceiptEvent.COMPLAINED,
    "unsub": ReceiptEvent.OPTED_OUT,
}
"""Sent: the recipient's server took it. Blocked: Mailjet did not try, and will not."""
FOR_GOOD: Final = frozenset({ReceiptEvent.FAILED, ReceiptEvent.COMPLAINED, ReceiptEvent.OPTED_OUT})


class _Event(msgspec.Struct):
    event: str
    time: int = 0
    email: str = ""
    hard_bounce: bool = False
    error_related_to: str = ""
    error: str = ""
    message_id: Any = msgspec.field(default=None, name="MessageID")
    custom_id: Any = msgspec.field(default=None, name="CustomID")


_events = msgspec.json.Decoder(list[_Event] | _Event)


class MailjetReader(PasswordReader):
    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        """One event, or the list of a grouped webhook."""
        read = _events.decode(callback.body)
        for each in read if isinstance(read, list) else [read]:
            what = EVENTS.get(each.event)
            if what is None:
                continue
            yield Receipt(
                derived_id(each.event, str(each.message_id), each.email, str(each.time)),
                what,
                kept_id(each.custom_id),
                kept_id(each.message_id),
                each.hard_bounce or what in FOR_GOOD,
                one_line(" ".join(filter(None, (each.error_related_to, each.error)))),
                one_line(each.email) or None if what is ReceiptEvent.OPTED_OUT else None,
                occurred_at=from_unix(each.time),
            )


def receipt_reader(target: Target) -> MailjetReader | None:
    keys = password_keys(target)
    return None if keys is None else MailjetReader(keys)


FAMILY = Family(MAILJET, MailjetGateway, receipt_reader)
