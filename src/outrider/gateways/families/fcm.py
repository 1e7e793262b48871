"""The `fcm` gateway type: push notifications through Firebase Cloud Messaging, HTTP v1.

A reservation becomes `POST {gatewayUrl}/v1/projects/{project}/messages:send`. The OAuth access
token expires after an hour: keep it in a file that is renewed, and it is re-read in time.
"""

from typing import Final

import msgspec

from outrider.domain.addresses import normalise_push_token
from outrider.domain.call_results import Rejected
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
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
    options = frozenset({"project"})
    source = "https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode"
    reasons = REASONS
    ours = OURS
    ours_for_some = OURS_FOR_SOME
    throttles = frozenset({"QUOTA_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"})

    def __init__(self, target: Target) -> None:
        super().__init__(target, "accessToken")
        project = target.option("project")
        self._url = base_url(target.url) / "v1" / "projects" / project / "messages:send"

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        token = normalise_push_token(content.to)
        if token is None:
            return Rejected("invalid_recipient", "not a registration token")
        notification = {"title": content.subject or "", "body": content.body}
        document = {"message": {"token": token, "notification": notification}}
        headers = {REFERENCE_HEADER: reference, **self.bearer("accessToken")}
        return json_request(self._url, document, headers)

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        error = answer.error or _Error()
        # FCM's own code is specific; the status beside it is generic across Google's services.
        exact = [detail.error_code for detail in error.details if detail.error_code]
        return ProviderReply(answer.name, exact[0] if exact else error.status, error.message)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send: it is
        # validated, not delivered. A topic without subscribers is valid; a made-up token is not.
        document = {"validate_only": True, "message": {"topic": CHECK_TOPIC}}
        question = Question(
            self._url,
            self.bearer("accessToken"),
            "accessToken",
            ("project",),
            method="POST",
            content=msgspec.json.encode(document),
        )
        return await self.ask(question, seconds)


FAMILY = Family(FCM, FcmGateway)
