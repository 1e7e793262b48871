"""The `infobip` gateway type: SMS through Infobip's API, version 3.

A reservation becomes `POST {gatewayUrl}/sms/3/messages` at the account's own host. Our reference is
the message's own id: Infobip's logs can be asked for it, and reports have it. That a repeat is
refused is not documented, so none is made.

Sources: https://www.infobip.com/docs/api/channels/sms/outbound-sms,
https://www.infobip.com/docs/developer-resources/api-fundamentals/message-status-codes,
https://www.infobip.com/docs/developer-resources/api-fundamentals/error-code-reference.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from outrider.domain.evidence import Evidence, LookedUp, LookUp, Match, Receipts, unknown
from outrider.domain.ids import IdempotencyKey
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.families.mail_provider import PasswordReader, password_keys
from outrider.gateways.families.sms_provider import (
    LOOK_UP_DELAY_SECONDS,
    SMS_REASONS,
    SmsProviderGateway,
    kept_id,
    with_plus,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, found_by_reference, get_json
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.gateways.receipt_reading import derived_id, from_iso, kept_text, one_line
from outrider.limits.gateways import RECEIPT_TEXT_MAX_CHARACTERS
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.receipts import Callback
from outrider.ports.target_check import CheckFinding

PENDING: Final = frozenset({"PENDING", "DELIVERED"})
REJECTED: Final = "REJECTED"
HANDSET_ERRORS: Final = 1
"""The group of errors that are about the recipient."""

LOOK_UP: Final = LookUp(
    Match.REFERENCE,
    LOOK_UP_DELAY_SECONDS,
    # Its logs go back two days.
    retention_seconds=2 * 86_400.0,
    asks="`GET /sms/3/logs?messageId=`",
    source="https://www.infobip.com/docs/api/channels/sms/logs-and-status-reports/get-outbound-sms-message-logs-v3",
)
INFOBIP = GatewayType(
    "infobip",
    Channel.SMS,
    SMS_REASONS,
    evidence=Evidence(LOOK_UP, Receipts("`messageId`, `callbackData`")),
)
OURS: Final[Reasons] = {
    "UNAUTHORIZED": "unauthorized",
    "FORBIDDEN": "unauthorized",
    "REJECTED_NOT_ENOUGH_CREDITS": "account_refused",
    "REJECTED_PREPAID_PACKAGE_EXPIRED": "account_refused",
}
OURS_FOR_SOME: Final[Reasons] = {
    # A country's rules about senders, or an account without a route there: other numbers work.
    "REJECTED_SENDER": "sender_refused",
    "REJECTED_SOURCE": "sender_refused",
    "REJECTED_ROUTE_NOT_AVAILABLE": "account_refused",
    "REJECTED_DESTINATION_NOT_REGISTERED": "account_refused",
}
REASONS: Final[Reasons] = {
    "BAD_REQUEST": "invalid_request",
    "REJECTED_DESTINATION": "invalid_recipient",
    "REJECTED_NETWORK": "invalid_recipient",
    "REJECTED_PREFIX_MISSING": "invalid_recipient",
    "MISSING_TO": "invalid_recipient",
    "REJECTED_DND": "suppressed",
    "REJECTED_MESSAGE_TOO_LONG": "invalid_message",
    "REJECTED_INVALID_UDH": "invalid_message",
}


class _Status(msgspec.Struct, rename="camel"):
    group_name: str = ""
    name: str = ""
    description: str = ""


class _Message(msgspec.Struct, rename="camel"):
    message_id: str | None = None
    status: _Status = msgspec.field(default_factory=_Status)


class _ServiceException(msgspec.Struct, rename="camel"):
    message_id: str | None = None
    text: str = ""


class _RequestError(msgspec.Struct, rename="camel"):
    service_exception: _ServiceException | None = None


class _Answer(msgspec.Struct, rename="camel"):
    messages: list[_Message] = []
    error_code: str | None = None
    description: str = ""
    request_error: _RequestError | None = None


class _Logs(msgspec.Struct):
    results: list[_Message]


_decoder = msgspec.json.Decoder(_Answer)
_logs = msgspec.json.Decoder(_Logs)


class InfobipGateway(SmsProviderGateway):
    type = INFOBIP
    options = frozenset({"from"})
    source = (
        "https://www.infobip.com/docs/developer-resources/api-fundamentals/message-status-codes"
    )
    reasons = REASONS
    ours = OURS
    ours_for_some = OURS_FOR_SOME
    throttles = frozenset({"REJECTED_FLOODING_FILTER", "TOO_MANY_REQUESTS"})
    refuses_with_success = True

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey")
        self._host = base_url(target.url)
        self._url = self._host / "sms" / "3" / "messages"
        self._sender = target.option("from")

    def text(self, reference: IdempotencyKey, number: str, body: str) -> Request:
        message = {
            "sender": self._sender,
            "destinations": [{"to": number.lstrip("+"), "messageId": reference}],
            "content": {"text": body},
            "webhooks": {"callbackData": reference},
        }
        return json_request(self._url, {"messages": [message]}, self._headers())

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"App {self.credential('apiKey')}"}

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        if answer.messages:
            message = answer.messages[0]
            status = message.status
            if status.group_name in PENDING:
                return ProviderReply(message.message_id)
            return ProviderReply(None, status.name or None, status.description)
        error = (answer.request_error or _RequestError()).service_exception or _ServiceException()
        code = answer.error_code or error.message_id
        return ProviderReply(None, code, answer.description or error.text)

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        return await asked_one_by_one(questions, self._found, self.unanswered)

    async def _found(self, question: LookUpQuestion) -> LookedUp:
        url = (self._host / "sms" / "3" / "logs").with_query(messageId=question.reference)
        logs = await get_json(self._client, url, _logs, self._headers())
        same = [each for each in logs.results if each.message_id == question.reference]
        if logs.results and not same:
            raise NoAnswer("it lists other messages")
        if any(each.status.group_name == REJECTED for each in same):
            return unknown("it has the message, and rejected it")
        return found_by_reference([each.message_id or "" for each in same])

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://www.infobip.com/docs/api/platform/account-management/get-account-balance
        url = self._host / "account" / "1" / "balance"
        return await self.ask(Question(url, self._headers(), "apiKey"), seconds)


class _Error(msgspec.Struct, rename="camel"):
    group_id: int = 0
    name: str = ""
    description: str = ""
    permanent: bool = False


class _Report(msgspec.Struct, rename="camel"):
    message_id: str
    status: _Status | None = None
    error: _Error | None = None
    sender: str = msgspec.field(default="", name="from")
    text: str | None = None
    callback_data: str | None = None
    done_at: str = ""
    received_at: str = ""


class _Reports(msgspec.Struct):
    results: list[_Report]


_reports = msgspec.json.Decoder(_Reports)


class InfobipReader(PasswordReader):
    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        for report in _reports.decode(callback.body).results:
            if report.status is not None:
                yield from _of_message(report, report.status)
            elif report.sender and report.text is not None:
                yield Receipt(
                    derived_id(one_line(report.message_id), "received"),
                    ReceiptEvent.REPLIED,
                    sender=with_plus(report.sender),
                    text=kept_text(report.text, RECEIPT_TEXT_MAX_CHARACTERS),
                    occurred_at=from_iso(report.received_at),
                )


def _of_message(report: _Report, status: _Status) -> Iterator[Receipt]:
    error = report.error or _Error()
    event, permanent = _happened(status, error)
    if event is None:
        return
    is_delivered = event is ReceiptEvent.DELIVERED
    words = "" if is_delivered else one_line(f"{status.name} {error.name} {error.description}")
    yield Receipt(
        derived_id(one_line(report.message_id), status.name, error.name),
        event,
        kept_id(report.callback_data) or kept_id(report.message_id),
        kept_id(report.message_id),
        permanent,
        words,
        occurred_at=from_iso(report.done_at),
    )


def _happened(status: _Status, error: _Error) -> tuple[ReceiptEvent | None, bool]:
    """`DELIVERED_TO_OPERATOR` is on its way, whatever its group is called."""
    if status.name == "DELIVERED_TO_HANDSET":
        return ReceiptEvent.DELIVERED, False
    if status.group_name == "UNDELIVERABLE" and error.group_id == HANDSET_ERRORS:
        return ReceiptEvent.BOUNCED, error.permanent
    if status.group_name in ("UNDELIVERABLE", "EXPIRED", REJECTED):
        return ReceiptEvent.FAILED, error.permanent
    return None, False


def receipt_reader(target: Target) -> InfobipReader | None:
    keys = password_keys(target)
    return None if keys is None else InfobipReader(keys)


FAMILY = Family(INFOBIP, InfobipGateway, receipt_reader)
