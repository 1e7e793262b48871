"""The `expo` gateway type: push notifications through Expo's push service.

A reservation becomes `POST {gatewayUrl}/--/api/v2/push/send`. Expo has no key, and can be asked for
receipts by its own ids only, so silence is doubt.

Sources: https://docs.expo.dev/push-notifications/sending-notifications/#message-request-format,
https://docs.expo.dev/push-notifications/sending-notifications/#individual-errors.
"""

import re
from typing import Any, Final

import msgspec

from outrider.domain.call_results import Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.families.push_options import object_of, ttl_seconds
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import (
    REFERENCE_HEADER,
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.ports.target_check import CheckFinding

TTL_MAX_SECONDS: Final = 28 * 86_400
NO_SUCH_TICKET: Final = "00000000-0000-0000-0000-000000000000"
_TOKEN = re.compile(r"Expo(nent)?PushToken\[[\x21-\x5c\x5e-\x7e]{1,200}\]\Z")
OWN_FIELDS: Final = frozenset(
    {"subtitle", "sound", "badge", "priority", "channelId", "categoryId", "mutableContent",
     "interruptionLevel", "richContent", "icon"}
)  # fmt: skip
"""What a direct intent's `expo` may have besides what every message has."""

EXPO = GatewayType(
    "expo",
    Channel.PUSH,
    frozenset(
        {
            "invalid_request",
            "invalid_recipient",
            "invalid_message",
            "unauthorized",
            "unregistered_token",
        }
    ),
)
OURS: Final[Reasons] = {"UNAUTHORIZED": "unauthorized"}
# The app's own keys for Apple or Google: devices of the other one are still reachable.
OURS_FOR_SOME: Final[Reasons] = {
    "InvalidCredentials": "unauthorized",
    "MismatchSenderId": "unauthorized",
}
REASONS: Final[Reasons] = {
    "DeviceNotRegistered": "unregistered_token",
    "MessageTooBig": "invalid_message",
    "VALIDATION_ERROR": "invalid_request",
    "PUSH_TOO_MANY_NOTIFICATIONS": "invalid_request",
}


class _Details(msgspec.Struct):
    error: str | None = None


class _Ticket(msgspec.Struct):
    status: str = ""
    id: str | None = None
    message: str = ""
    details: _Details | None = None


class _Error(msgspec.Struct):
    code: str | None = None
    message: str = ""


class _Answer(msgspec.Struct):
    data: msgspec.Raw = msgspec.Raw(b"null")
    errors: list[_Error] = []


_decoder = msgspec.json.Decoder(_Answer)
_ticket = msgspec.json.Decoder(_Ticket | None)


class ExpoGateway(ProviderGateway):
    type = EXPO
    options = frozenset({"ttlSeconds", "channelId", "sound", "priority"})
    source = "https://docs.expo.dev/push-notifications/sending-notifications/#individual-errors"
    reasons = REASONS
    ours = OURS
    ours_for_some = OURS_FOR_SOME
    throttles = frozenset({"TOO_MANY_REQUESTS", "MessageRateExceeded"})
    refuses_with_success = True

    def __init__(self, target: Target) -> None:
        super().__init__(target, "accessToken")
        self._url = base_url(target.url) / "--" / "api" / "v2" / "push" / "send"
        self._ttl_seconds = ttl_seconds(target.option("ttlSeconds", "") or None, TTL_MAX_SECONDS)
        usual = {name: target.option(name, "") for name in ("channelId", "sound", "priority")}
        self._usual = {name: value for name, value in usual.items() if value}

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        if not _TOKEN.match(content.to):
            return Rejected("invalid_recipient", "not an Expo push token")
        message: dict[str, Any] = {"to": content.to, "body": content.body, **self._usual}
        if content.subject:
            message["title"] = content.subject
        try:
            message |= self._chosen(content)
        except InvalidInput as error:
            return Rejected("invalid_message", error.message)
        headers = {REFERENCE_HEADER: reference, **self.bearer("accessToken")}
        return json_request(self._url, message, headers)

    def _chosen(self, content: Content) -> dict[str, Any]:
        """What a direct intent says of itself."""
        own = object_of(content.payload, "expo")
        if not own.keys() <= OWN_FIELDS:
            raise InvalidInput(f"the payload's 'expo' has others than {sorted(OWN_FIELDS)}")
        ttl = content.payload.get("ttlSeconds", self._ttl_seconds)
        chosen = dict(own) if ttl is None else {**own, "ttl": ttl_seconds(ttl, TTL_MAX_SECONDS)}
        if "data" in content.payload:
            chosen["data"] = object_of(content.payload, "data")
        return chosen

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        if answer.errors:
            return ProviderReply(None, answer.errors[0].code, answer.errors[0].message)
        ticket = _ticket.decode(answer.data) or _Ticket()
        if ticket.status == "ok":
            return ProviderReply(ticket.id)
        code = (ticket.details or _Details()).error
        return ProviderReply(None, code or ticket.status or None, ticket.message)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://docs.expo.dev/push-notifications/sending-notifications/#push-receipts
        question = Question(
            self._url.parent / "getReceipts",
            self.bearer("accessToken"),
            "accessToken",
            method="POST",
            content=msgspec.json.encode({"ids": [NO_SUCH_TICKET]}),
        )
        return await self.ask(question, seconds)


FAMILY = Family(EXPO, ExpoGateway)
