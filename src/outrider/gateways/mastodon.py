"""The `mastodon` gateway type: a post of one account, deduplicated by reference for an hour.

A reservation becomes `POST {gatewayUrl}/api/v1/statuses` under its own Idempotency-Key. A post is
public, so it has no recipient; a subject becomes the line shown before the content.
"""

from typing import Final

import msgspec

from outrider.domain.call_results import Rejected
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import (
    REASONS_BY_STATUS,
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    form_request,
)
from outrider.ports.target_check import CheckFinding

MEMORY: Final = ReferenceMemory.parse("1h")

MASTODON = GatewayType(
    "mastodon",
    Channel.SOCIAL,
    frozenset({"invalid_request", "invalid_message", "unauthorized"}),
    remembers=MEMORY,
)

# Mastodon has no error codes: the status is all there is, and 422 is about the text.
NO_CODES: Final[Reasons] = {}
BY_STATUS: Final = {**REASONS_BY_STATUS, 422: "invalid_message"}


class _Answer(msgspec.Struct):
    id: str | None = None
    error: str = ""


_decoder = msgspec.json.Decoder(_Answer)


class MastodonGateway(ProviderGateway):
    type = MASTODON
    options = frozenset({"visibility", "language"})
    source = "https://docs.joinmastodon.org/methods/statuses/#create"
    reasons = NO_CODES
    reasons_by_status = BY_STATUS
    addressed = False

    def __init__(self, target: Target) -> None:
        super().__init__(target, "accessToken")
        self._url = base_url(target.url) / "api" / "v1" / "statuses"
        self._visibility = target.option("visibility", "public")
        self._language = target.option("language", "") or None

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        if not content.body.strip():
            return Rejected("invalid_message", "a post must not be empty")
        fields = {
            "status": content.body,
            "visibility": self._visibility,
            "spoiler_text": content.subject or None,
            "language": self._language,
        }
        headers = {"Idempotency-Key": reference, **self.bearer("accessToken")}
        return form_request(self._url, fields, headers)

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.id, None, answer.error)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://docs.joinmastodon.org/methods/accounts/#verify_credentials
        url = self._url.parent / "accounts" / "verify_credentials"
        # https://github.com/mastodon/mastodon/issues/14272: a token for write:statuses only.
        may_not_read = frozenset({"This action is outside the authorized scopes"})
        token = self.bearer("accessToken")
        question = Question(url, token, "accessToken", may_not_read=may_not_read)
        return await self.ask(question, seconds)


FAMILY = Family(MASTODON, MastodonGateway)
