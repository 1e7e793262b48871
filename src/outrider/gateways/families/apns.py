"""The `apns` gateway type: push notifications through Apple's own service, over HTTP/2.

A reservation becomes `POST {gatewayUrl}/3/device/{token}`, signed with the target's key. There is
no key, no look-up and no receipt: `apns-id` names a message, but nothing says that a second one
with the same id is dropped. A repeat replaces the first on the device, because both carry the
reference as their `apns-collapse-id`.

Sources: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns,
…/handling-notification-responses-from-apns.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from outrider.domain.addresses import normalise_push_token
from outrider.domain.call_results import (
    UNAUTHORIZED,
    AttemptError,
    CallResult,
    Closes,
    NotBegun,
    Rejected,
    Throttled,
)
from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Evidence
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.access_tokens import AccessToken, tokens_of
from outrider.gateways.content import Content
from outrider.gateways.families.apns_options import ApnsOptions, payload_of
from outrider.gateways.families.apns_tokens import is_replaceable, signed
from outrider.gateways.families.push_options import collapse_id
from outrider.gateways.families.vapid_keys import signing_key
from outrider.gateways.family import Family, Target
from outrider.gateways.http import ReceivedAnswer, base_url
from outrider.gateways.http_check import Question, judged, unanswered
from outrider.gateways.look_ups import fingerprint
from outrider.gateways.provider import (
    REFERENCE_HEADER,
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.ports.target_check import CheckFinding

if TYPE_CHECKING:
    from outrider.gateways.http2_client import Http2Client

MESSAGE_ID: Final = "apns-id"
NOBODY: Final = "0" * 64
"""A device token that no device has."""
SAME_DEVICE: Final = "TooManyRequests"
"""Too many to the same device: others are not concerned."""

APNS = GatewayType(
    "apns",
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
    evidence=Evidence(collapses="`apns-collapse-id`"),
)
OURS: Final[Reasons] = {
    "ExpiredProviderToken": "unauthorized",
    "InvalidProviderToken": "unauthorized",
    "MissingProviderToken": "unauthorized",
    "UnrelatedKeyIdInToken": "unauthorized",
    "BadEnvironmentKeyIdInToken": "unauthorized",
    "BadCertificate": "unauthorized",
    "BadCertificateEnvironment": "unauthorized",
    "Forbidden": "unauthorized",
    "BadTopic": "invalid_setup",
    "MissingTopic": "invalid_setup",
    "TopicDisallowed": "invalid_setup",
    "BadPath": "invalid_setup",
    "MethodNotAllowed": "invalid_setup",
}
REASONS: Final[Reasons] = {
    "BadDeviceToken": "invalid_recipient",
    "DeviceTokenNotForTopic": "invalid_recipient",
    "MissingDeviceToken": "invalid_recipient",
    "Unregistered": "unregistered_token",
    "ExpiredToken": "unregistered_token",
    "PayloadEmpty": "invalid_message",
    "PayloadTooLarge": "invalid_message",
    "BadCollapseId": "invalid_request",
    "BadExpirationDate": "invalid_request",
    "BadMessageId": "invalid_request",
    "BadPriority": "invalid_request",
    "DuplicateHeaders": "invalid_request",
    "InvalidPushType": "invalid_request",
}


class _Answer(msgspec.Struct):
    reason: str | None = None


_decoder = msgspec.json.Decoder(_Answer)


class ApnsGateway(ProviderGateway):
    type = APNS
    options = frozenset(
        {"keyId", "teamId", "topic", "pushType", "priority", "ttlSeconds", "caFile"}
    )
    documents = frozenset({"privateKey"})
    source = (
        "https://developer.apple.com/documentation/usernotifications/"
        "handling-notification-responses-from-apns"
    )
    reasons = REASONS
    ours = OURS
    throttles = frozenset(
        {"TooManyProviderTokenUpdates", SAME_DEVICE, "ServiceUnavailable", "Shutdown"}
    )

    def __init__(self, target: Target) -> None:
        super().__init__(target, "privateKey")
        self._url = base_url(target.url) / "3" / "device"
        self._issuer = target.option("teamId"), target.option("keyId")
        self._options = ApnsOptions.of(target)
        self._token = ""
        self._http2 = self._connection(target)
        signing_key(self.credential("privateKey"))

    def _connection(self, target: Target) -> "Http2Client":
        from outrider.gateways.http2_client import Http2Client

        return Http2Client(
            self._url.origin(),
            target.client,
            kept_headers=frozenset({MESSAGE_ID}),
            allow_private=target.allow_private,
            ca_file=target.option("caFile", "") or None,
        )

    async def sign_in(self) -> CallResult | None:
        found = await tokens_of(self._client).get(self._key(), self._signed)
        if not isinstance(found, str):
            return found
        self._token = found
        return None

    def sign_out(self) -> bool:
        is_replaced = bool(self._token) and is_replaceable(self._token)
        if is_replaced:
            tokens_of(self._client).forget(self._key(), self._token)
        return is_replaced

    def _key(self) -> str:
        return fingerprint(*self._issuer, self.credential("privateKey"))

    async def _signed(self) -> AccessToken | CallResult:
        return signed(*self._issuer, self.credential("privateKey"))

    def secret_values(self) -> Iterable[str]:
        return [*super().secret_values(), *filter(None, [self._token])]

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        token = normalise_push_token(content.to)
        if token is None or not (token.isascii() and token.isalnum()):
            return Rejected("invalid_recipient", "not a device token")
        try:
            options = self._options.for_message(content.payload)
            payload = payload_of(content, options.push_type)
        except InvalidInput as error:
            return Rejected("invalid_message", error.message)
        own = options.headers(collapse_id(reference), time.time())
        request = json_request(self._url / token, payload, self._headers(reference, own))
        if len(request.body) > options.payload_max_bytes:
            return Rejected("invalid_message", f"more than {options.payload_max_bytes} bytes")
        return request

    def _headers(self, reference: str, options: Mapping[str, str]) -> dict[str, str]:
        """`apns-id` must be a UUID; ours follows from the reference, so a repeat has the same."""
        return {
            "authorization": f"bearer {self._token}",
            MESSAGE_ID: str(uuid.uuid5(uuid.NAMESPACE_URL, reference)),
            REFERENCE_HEADER: reference,
            **options,
        }

    async def transmit(
        self, request: Request, begin: Callable[[], bool]
    ) -> ReceivedAnswer | AttemptError | NotBegun:
        seconds = self._timeout_seconds
        return await self._http2.post(
            request.url, request.body, request.headers, timeout_seconds=seconds, begin=begin
        )

    def read(self, body: bytes) -> ProviderReply:
        reason = _decoder.decode(body).reason
        return ProviderReply(None, reason, reason or "")

    def read_answer(self, answer: ReceivedAnswer) -> ProviderReply:
        if answer.status == 200:
            return ProviderReply(answer.headers.get(MESSAGE_ID))
        return self.read(answer.body)

    def _interpret(self, answer: ReceivedAnswer) -> CallResult:
        result = super()._interpret(answer)
        if isinstance(result, Throttled) and self._said(answer).code == SAME_DEVICE:
            return replace(result, closes=Closes.THE_ITEM)
        return result

    async def check(self, seconds: float) -> CheckFinding | None:
        """A notification to no device: that it has none is Apple's last objection."""
        refusal = await self.sign_in()
        url = self._url / NOBODY
        if refusal is not None:
            return self.not_signed_in(refusal, url, "privateKey")
        headers = self._headers("check", self._options.headers("check", time.time()))
        answer = await self._http2.post(
            url, b'{"aps":{}}', headers, timeout_seconds=seconds, begin=lambda: True
        )
        if not isinstance(answer, ReceivedAnswer):
            return unanswered(url, answer) if isinstance(answer, AttemptError) else None
        reply, nobody = self._said(answer), frozenset({"BadDeviceToken"})
        options = ("topic", "keyId", "teamId")
        return judged(
            Question(url, {}, "privateKey", options, can_only_send=nobody),
            answer,
            reply.code,
            self._detail(reply.detail),
            self._credentials["privateKey"].reference,
            unknown=self.ours.get(reply.code or "") == UNAUTHORIZED,
        )

    async def close(self) -> None:
        await self._http2.close()


FAMILY = Family(APNS, ApnsGateway)
