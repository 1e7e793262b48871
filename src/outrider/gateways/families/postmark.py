"""The `postmark` gateway type: e-mail through Postmark, which can be asked for our reference.

A reservation becomes `POST {gatewayUrl}/email` with the reference in its metadata, by which
messages can be searched and which every webhook repeats. There is no send-side key.

Sources: https://postmarkapp.com/developer/api/email-api,
https://postmarkapp.com/developer/api/messages-api,
https://postmarkapp.com/support/article/1125-custom-metadata-faq (20 and 80 characters),
https://postmarkapp.com/developer/webhooks/webhooks-overview, …/bounce-webhook, …/delivery-webhook,
…/spam-complaint-webhook, …/subscription-change-webhook; types of bounces:
https://postmarkapp.com/developer/api/bounce-api#bounce-types.
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
    REFERENCE_NAME,
    MailProviderGateway,
    PasswordReader,
    attached,
    is_plain,
    kept_id,
    own_headers,
    password_keys,
    reply_to,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, found_by_reference, get_json
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.gateways.receipt_reading import derived_id, from_iso, one_line
from outrider.limits.gateways import LOOK_UP_PAGE_ITEMS
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.receipts import Callback
from outrider.ports.target_check import CheckFinding

METADATA_VALUE_MAX_CHARACTERS: Final = 80
UNSEARCHABLE: Final = "this reference does not fit into Postmark's metadata"
STREAM_DEFAULT: Final = "outbound"

LOOK_UP: Final = LookUp(
    Match.REFERENCE,
    # No delay is documented: two minutes are ours. Messages are kept for 45 days, or for 7 to 365
    # as the server is set up; the shortest counts unless the target declares more.
    delay_seconds=120.0,
    retention_seconds=7 * 86_400.0,
    asks="`GET /messages/outbound?metadata_outrider_reference=`",
    source="https://postmarkapp.com/developer/api/messages-api",
)
POSTMARK = GatewayType(
    "postmark",
    Channel.EMAIL,
    MAIL_REASONS | {"suppressed"},
    evidence=Evidence(LOOK_UP, Receipts("`Metadata.outrider_reference`")),
)

OURS: Final[Reasons] = {
    10: "unauthorized",
    400: "sender_refused",
    401: "sender_refused",
    405: "account_refused",
    413: "account_refused",
}
# A pending account may only write to its own domain.
OURS_FOR_SOME: Final[Reasons] = {412: "account_refused"}
REASONS: Final[Reasons] = {
    300: "invalid_request",
    402: "invalid_request",
    403: "invalid_request",
    406: "suppressed",
    409: "invalid_request",
    411: "invalid_message",
}


class _Answer(msgspec.Struct, rename="pascal"):
    message_id: str | None = msgspec.field(default=None, name="MessageID")
    error_code: int | None = None
    message: str = ""


class _Found(msgspec.Struct, rename="pascal"):
    message_id: str = msgspec.field(name="MessageID")
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)


class _Page(msgspec.Struct, rename="pascal"):
    total_count: int
    messages: list[_Found]


_decoder = msgspec.json.Decoder(_Answer)
_pages = msgspec.json.Decoder(_Page)


class PostmarkGateway(MailProviderGateway):
    type = POSTMARK
    options = frozenset({"from", "messageStream"})
    source = "https://postmarkapp.com/developer/api/overview#error-codes"
    reasons = REASONS
    ours = OURS
    ours_for_some = OURS_FOR_SOME
    throttles = frozenset({100, 429})

    def __init__(self, target: Target) -> None:
        super().__init__(target, "serverToken")
        self._base_url = base_url(target.url)
        self._stream = target.option("messageStream", STREAM_DEFAULT)

    def mail(self, reference: IdempotencyKey, recipient: str, content: Content) -> Request:
        headers = own_headers(reference, content)
        document: dict[str, object] = {
            "From": self.sender_of(content).header("From"),
            "To": recipient,
            "Subject": content.subject or "",
            "HtmlBody" if content.html else "TextBody": content.body,
            "MessageStream": self._stream,
            "Headers": [{"Name": name, "Value": value} for name, value in headers.items()],
        }
        if is_plain(reference, METADATA_VALUE_MAX_CHARACTERS):
            document["Metadata"] = {REFERENCE_NAME: reference}
        if answers := reply_to(content):
            document["ReplyTo"] = answers.header("Reply-To")
        if content.enclosures:
            document["Attachments"] = attached(content, "Name", "Content", "ContentType")
        return json_request(self._base_url / "email", document, self._headers())

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.message_id, answer.error_code or None, answer.message)

    def _headers(self) -> dict[str, str]:
        return {"X-Postmark-Server-Token": self.credential("serverToken")}

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        return await asked_one_by_one(questions, self._find_one, self.unanswered)

    async def _find_one(self, question: LookUpQuestion) -> LookedUp:
        reference = question.reference
        if not is_plain(reference, METADATA_VALUE_MAX_CHARACTERS):
            return unknown(UNSEARCHABLE)
        query = {
            "count": str(LOOK_UP_PAGE_ITEMS), "offset": "0", "messagestream": self._stream,
            f"metadata_{REFERENCE_NAME}": reference,
        }  # fmt: skip
        url = (self._base_url / "messages" / "outbound").with_query(query)
        page = await get_json(self._client, url, _pages, self._headers())
        if any(each.metadata.get(REFERENCE_NAME) != reference for each in page.messages):
            raise NoAnswer("it answered about another message")
        if page.total_count and not page.messages:
            raise NoAnswer("it counts messages and shows none")
        return found_by_reference([each.message_id for each in page.messages])

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://postmarkapp.com/developer/api/server-api#get-server
        question = Question(self._base_url / "server", self._headers(), "serverToken")
        return await self.ask(question, seconds)


PERMANENT: Final = frozenset({"HardBounce", "BadEmailAddress", "ManuallyDeactivated"})
DELAYED: Final = "Transient"
NO_BOUNCES: Final = frozenset({"AutoResponder", "Subscribe", "AddressChange", "OpenRelayTest"})
"""Answers of machines, which say nothing about the delivery."""
BY_THEMSELVES: Final = "ManualSuppression"


class _Event(msgspec.Struct, rename="pascal"):
    record_type: str
    message_id: str = msgspec.field(default="", name="MessageID")
    id: int | None = msgspec.field(default=None, name="ID")
    type: str = ""
    description: str = ""
    details: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    recipient: str = ""
    suppress_sending: bool = False
    suppression_reason: str | None = None
    bounced_at: str = ""
    delivered_at: str = ""
    received_at: str = ""
    changed_at: str = ""

    @property
    def at(self) -> str:
        return self.bounced_at or self.delivered_at or self.received_at or self.changed_at


_events = msgspec.json.Decoder(_Event)


class PostmarkReader(PasswordReader):
    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        event = _events.decode(callback.body)
        what, permanent = _meaning(event)
        if what is None:
            return
        words = f"{event.type} {event.description or event.details}" if event.type else ""
        yield Receipt(
            derived_id(event.record_type, event.type, str(event.id or event.message_id), event.at),
            what,
            kept_id(event.metadata.get(REFERENCE_NAME)),
            kept_id(event.message_id),
            permanent,
            one_line(words),
            one_line(event.recipient) or None if what is ReceiptEvent.OPTED_OUT else None,
            occurred_at=from_iso(event.at),
        )


def _meaning(event: _Event) -> tuple[ReceiptEvent | None, bool]:
    match event.record_type:
        case "Delivery":
            return ReceiptEvent.DELIVERED, False
        case "Open" | "Click":
            return ReceiptEvent.READ, False
        case "SpamComplaint":
            return ReceiptEvent.COMPLAINED, True
        case "Bounce" if event.type == DELAYED:
            return ReceiptEvent.FAILED, False
        case "Bounce" if event.type not in NO_BOUNCES:
            return ReceiptEvent.BOUNCED, event.type in PERMANENT
        case "SubscriptionChange" if (
            event.suppress_sending and event.suppression_reason == BY_THEMSELVES
        ):
            return ReceiptEvent.OPTED_OUT, True
        case _:
            return None, False


def receipt_reader(target: Target) -> PostmarkReader | None:
    keys = password_keys(target)
    return None if keys is None else PostmarkReader(keys)


FAMILY = Family(POSTMARK, PostmarkGateway, receipt_reader)
