"""The `plivo` gateway type: SMS through Plivo.

A reservation becomes `POST {gatewayUrl}/v1/Account/{authId}/Message/`. Plivo has no key; its list
of messages shows to whom and when, but no text, and each message's own report URL has our
reference, which Plivo signs along (`plivo_receipts.py`).

Sources: https://www.plivo.com/docs/messaging/api/message/send-a-message,
https://www.plivo.com/docs/messaging/api/message/list-all-messages.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec
from yarl import URL

from outrider.domain.addresses import normalise_phone
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
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import INCOMPLETE, content
from outrider.gateways.families.plivo_receipts import receipt_reader
from outrider.gateways.families.sms_provider import (
    LOOK_UP_DELAY_SECONDS,
    SMS_REASONS,
    SmsProviderGateway,
    callback_url,
    with_plus,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, fingerprint, get_json
from outrider.gateways.provider import (
    REFERENCE_HEADER,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.gateways.receipt_reading import from_iso
from outrider.limits.gateways import LOOK_UP_PAGE_ITEMS, LOOK_UP_PAGES
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.target_check import CheckFinding

LOOK_UP: Final = LookUp(
    Match.CONTENT,
    LOOK_UP_DELAY_SECONDS,
    # Plivo keeps its records of messages for 90 days; nobody waits that long for a verdict.
    retention_seconds=30 * 86_400.0,
    asks="`GET Message/?to_number=&message_time__gte=`",
    source="https://www.plivo.com/docs/messaging/api/message/list-all-messages",
    # What was written is not part of a message's record.
    compares=("recipient", "sender", "time"),
)
PLIVO = GatewayType(
    "plivo",
    Channel.SMS,
    SMS_REASONS,
    evidence=Evidence(LOOK_UP, Receipts("the message's own report `url`")),
    # https://www.plivo.com/docs/messaging/concepts/dnd-service: STOP and HELP.
    answers_opt_outs=True,
)
# Plivo's refusals are sentences, and the status is all there is.
NO_CODES: Final[Reasons] = {}


class _Answer(msgspec.Struct):
    message_uuid: list[str] = []
    error: str = ""


class _Sent(msgspec.Struct):
    message_uuid: str
    message_time: str
    to_number: str
    from_number: str = ""
    message_direction: str = ""

    @property
    def at(self) -> datetime:
        found = from_iso(self.message_time)
        if found is None:
            raise NoAnswer("not a time of a message")
        return found


class _Meta(msgspec.Struct):
    next: str | None = None


class _Page(msgspec.Struct):
    objects: list[_Sent]
    meta: _Meta


_decoder = msgspec.json.Decoder(_Answer)
_page = msgspec.json.Decoder(_Page)


class PlivoGateway(SmsProviderGateway):
    type = PLIVO
    options = frozenset({"authId", "from", "powerpackUuid"})
    source = "https://www.plivo.com/docs/messaging/api/overview#http-status-codes"
    reasons = NO_CODES

    def __init__(self, target: Target) -> None:
        super().__init__(target, "authToken")
        self._user = target.option("authId")
        # With a slash at its end, as Plivo writes it.
        self._url = base_url(target.url) / "v1" / "Account" / self._user / "Message" / ""
        self._powerpack = target.option("powerpackUuid", "") or None
        self._sender = target.option("from", "" if self._powerpack else None) or None
        self._receipts_url = target.receipts_url

    def text(self, reference: IdempotencyKey, number: str, body: str) -> Request:
        document = {"dst": number.lstrip("+"), "text": body}
        if self._powerpack is not None:
            document["powerpack_uuid"] = self._powerpack
        elif self._sender is not None:
            document["src"] = self._sender.lstrip("+")
        if self._receipts_url is not None:
            url = callback_url(self._receipts_url, reference)
            document |= {"url": url, "method": "POST"}
        return json_request(self._url, document, {REFERENCE_HEADER: reference, **self._basic()})

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        message_id = answer.message_uuid[0] if answer.message_uuid else None
        return ProviderReply(message_id, None, answer.error)

    def secret_values(self) -> Iterable[str]:
        return [*super().secret_values(), self._basic()["Authorization"].partition(" ")[2]]

    def _basic(self) -> dict[str, str]:
        signed = base64.b64encode(f"{self._user}:{self.credential('authToken')}".encode())
        return {"Authorization": f"Basic {signed.decode()}"}

    @property
    def records(self) -> str:
        return fingerprint(self._url)

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        return await asked_one_by_one(questions, self._found, self.unanswered)

    async def _found(self, question: LookUpQuestion) -> LookedUp:
        message = content(question)
        number = None if message is None else normalise_phone(message.to)
        if number is None:
            return unknown(INCOMPLETE)
        same, other = list[str](), list[str]()
        for each in await self._sent_to(number, question):
            if question.after <= each.at <= question.before:
                is_ours = self._sender is None or _same(each.from_number, self._sender)
                (same if is_ours else other).append(each.message_uuid)
        said = ABSENT
        if same:
            said = LookedUp(Finding.FOUND, tuple(same), "recipient, sender and time agree")
        return said._replace(unclear_ids=tuple(other))

    async def _sent_to(self, number: str, question: LookUpQuestion) -> list[_Sent]:
        since = question.after.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
        query = {
            "to_number": number.lstrip("+"),
            "message_direction": "outbound",
            "message_time__gte": since,
            "limit": str(LOOK_UP_PAGE_ITEMS),
        }
        url: URL | None = self._url.with_query(query)
        found: list[_Sent] = []
        for _ in range(LOOK_UP_PAGES):
            if url is None:
                return found
            page = await get_json(
                self._client, url, _page, self._basic(), asked_at=question.asked_at
            )
            if any(not _same(each.to_number, number) for each in page.objects):
                raise NoAnswer("it answered about another number")
            found += page.objects
            url = self._url.join(URL(page.meta.next)) if page.meta.next else None
            if url is not None and url.origin() != self._url.origin():
                raise NoAnswer("its next page is at another host")
        raise NoAnswer(f"more than {LOOK_UP_PAGES} pages")

    async def check(self, seconds: float) -> CheckFinding | None:
        url = self._url.with_query(limit=1)
        return await self.ask(Question(url, self._basic(), "authToken", ("authId",)), seconds)


def _same(one: str, other: str) -> bool:
    return with_plus(one).lower() == with_plus(other).lower()


FAMILY = Family(PLIVO, PlivoGateway, receipt_reader)
