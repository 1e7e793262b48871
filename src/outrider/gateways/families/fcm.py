"""The `fcm` gateway type: push notifications through Firebase Cloud Messaging, HTTP v1.

A reservation becomes `POST {gatewayUrl}/v1/projects/{project}/messages:send`, with an access token
that the service account is exchanged for. FCM has no key and no look-up; on the device, a repeat
replaces the first, because both carry the reference as their tag. A collapse key would lose other
messages of a device that is offline: FCM keeps four of them at most.
"""

import time
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from outrider.domain.addresses import normalise_push_token
from outrider.domain.call_results import CallResult, Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Evidence
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.access_tokens import tokens_of
from outrider.gateways.content import Content
from outrider.gateways.families.google_tokens import ServiceAccount, exchange, service_account
from outrider.gateways.families.push_options import (
    collapse_id,
    merged,
    object_of,
    text_data,
    topic,
    ttl_seconds,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
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

FCM = GatewayType(
    "fcm",
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
    evidence=Evidence(collapses="notification tag, `apns-collapse-id`, `Topic`"),
)

OURS: Final[Reasons] = {
    "UNAUTHENTICATED": "unauthorized",
    "PERMISSION_DENIED": "unauthorized",
    # Without FCM's own code, it is the project that was not found.
    "NOT_FOUND": "invalid_setup",
}
# The key for Apple or web devices: Android devices are still reachable.
OURS_FOR_SOME: Final[Reasons] = {"THIRD_PARTY_AUTH_ERROR": "unauthorized"}
REASONS: Final[Reasons] = {
    "UNREGISTERED": "unregistered_token",
    "INVALID_ARGUMENT": "invalid_request",
    # The token is valid, but for another project.
    "SENDER_ID_MISMATCH": "invalid_recipient",
}


CHECK_TOPIC: Final = "outrider-check"
SCOPE: Final = "https://www.googleapis.com/auth/firebase.messaging"
PARTS: Final = ("android", "apns", "webpush", "fcm_options")
"""Of a message, as https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages has
them; a direct intent's payload may have each."""
TTL_MAX_SECONDS: Final = 28 * 86_400
PRIORITIES: Final = frozenset({"normal", "high"})


class _Detail(msgspec.Struct, rename={"error_code": "errorCode"}):
    error_code: str | None = None


class _Error(msgspec.Struct):
    status: str | None = None
    message: str = ""
    details: list[_Detail] = []


class _Answer(msgspec.Struct):
    name: str | None = None
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_Answer)


class FcmGateway(ProviderGateway):
    type = FCM
    options = frozenset({"project", "ttlSeconds", "androidPriority", "androidChannel"})
    documents = frozenset({"serviceAccount"})
    source = "https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode"
    reasons = REASONS
    ours = OURS
    ours_for_some = OURS_FOR_SOME
    throttles = frozenset({"QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"})

    def __init__(self, target: Target) -> None:
        self._credential = "serviceAccount"
        if "accessToken" in target.settings.credentials:
            self._credential = "accessToken"
        super().__init__(target, self._credential)
        project = target.option("project")
        self._url = base_url(target.url) / "v1" / "projects" / project / "messages:send"
        self._ttl_seconds = ttl_seconds(target.option("ttlSeconds", "") or None, TTL_MAX_SECONDS)
        self._android = _android(target)
        self._token = ""
        if self._credential == "serviceAccount":
            service_account(self.credential("serviceAccount"))

    async def sign_in(self) -> CallResult | None:
        if self._credential == "accessToken":
            return None
        self._token = ""
        text = self.credential("serviceAccount")
        account: ServiceAccount = service_account(text)
        found = await tokens_of(self._client).get(
            fingerprint(text, SCOPE), lambda: exchange(self._client, account, SCOPE)
        )
        if not isinstance(found, str):
            return found
        self._token = found
        return None

    def sign_out(self) -> bool:
        if self._token:
            key = fingerprint(self.credential("serviceAccount"), SCOPE)
            tokens_of(self._client).forget(key, self._token)
        return bool(self._token)

    def secret_values(self) -> Iterable[str]:
        return [*super().secret_values(), *filter(None, [self._token])]

    def _bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token or self.credential('accessToken')}"}

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        token = normalise_push_token(content.to)
        if token is None:
            return Rejected("invalid_recipient", "not a registration token")
        try:
            message = self._message(reference, content)
        except InvalidInput as error:
            return Rejected("invalid_message", error.message)
        headers = {REFERENCE_HEADER: reference, **self._bearer()}
        return json_request(self._url, {"message": {"token": token, **message}}, headers)

    def _message(self, reference: str, content: Content) -> dict[str, Any]:
        """What is said to every device, and how each platform shows it: a repeat under the same tag
        replaces the first. The payload's own options take precedence."""
        given = content.payload
        tag = collapse_id(reference)
        message: dict[str, Any] = {
            "notification": {"title": content.subject or "", "body": content.body},
            "android": merged({"notification": {"tag": tag}}, self._android),
            "apns": {"headers": {"apns-collapse-id": tag}},
            "webpush": {"headers": {"Topic": topic(reference)}},
        }
        ttl = given.get("ttlSeconds", self._ttl_seconds)
        if ttl is not None:
            seconds = ttl_seconds(ttl, TTL_MAX_SECONDS) or 0
            message["android"]["ttl"] = f"{seconds}s"
            # APNs counts in seconds since 1970; 0 means to try once.
            until = int(time.time()) + seconds if seconds else 0
            message["apns"]["headers"]["apns-expiration"] = str(until)
            message["webpush"]["headers"]["TTL"] = str(seconds)
        if "data" in given:
            message["data"] = text_data(given["data"])
        for part in PARTS:
            if part in given:
                message[part] = merged(message.get(part, {}), object_of(given, part))
        return message

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        error = answer.error or _Error()
        # FCM's own code is specific; the status beside it is generic across Google's services.
        exact = [detail.error_code for detail in error.details if detail.error_code]
        return ProviderReply(answer.name, exact[0] if exact else error.status, error.message)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send: it is
        # validated, not delivered. A topic without subscribers is valid; a made-up token is not.
        refusal = await self.sign_in()
        if refusal is not None:
            return self.not_signed_in(refusal, self._url, self._credential)
        document = {"validate_only": True, "message": {"topic": CHECK_TOPIC}}
        question = Question(
            self._url,
            self._bearer(),
            self._credential,
            ("project",),
            method="POST",
            content=msgspec.json.encode(document),
        )
        return await self.ask(question, seconds)


def _android(target: Target) -> dict[str, Any]:
    options: dict[str, Any] = {}
    priority = target.option("androidPriority", "")
    if priority:
        if priority not in PRIORITIES:
            raise InvalidInput(f"androidPriority of '{target.name}' is neither normal nor high")
        options["priority"] = priority
    channel = target.option("androidChannel", "")
    if channel:
        options["notification"] = {"channel_id": channel}
    return options


FAMILY = Family(FCM, FcmGateway)
