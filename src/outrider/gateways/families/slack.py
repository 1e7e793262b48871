"""The `slack` gateway type: a post in a Slack conversation, by an app's bot.

A reservation becomes `POST {gatewayUrl}/api/chat.postMessage`. Slack has no key; our reference is
part of the message's metadata, by which the conversation's history can be asked for it. Slack
refuses with status 200 and `"ok": false`.

Sources: https://docs.slack.dev/reference/methods/chat.postMessage (with its errors),
https://docs.slack.dev/messaging/message-metadata,
https://docs.slack.dev/reference/methods/conversations.history.
"""

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from outrider.domain.call_results import Rejected
from outrider.domain.evidence import ABSENT, Evidence, LookedUp, LookUp, Match, unknown
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import INCOMPLETE, Content, content
from outrider.gateways.families.chat import CONVERSATION_REFUSED, ChatGateway
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, found_by_reference, get_json
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.limits.gateways import LOOK_UP_PAGES
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.target_check import CheckFinding

EVENT_TYPE: Final = "outrider_message"
TEXT_MAX_CHARACTERS: Final = 40_000
PAGE_ITEMS: Final = 15
"""What Slack allows apps outside its marketplace; a message has much around it."""

LOOK_UP: Final = LookUp(
    Match.REFERENCE,
    # Slack documents no delay of a conversation's history: half a minute is ours.
    delay_seconds=30.0,
    # A free workspace shows 90 days; nobody waits that long for a verdict.
    retention_seconds=7 * 86_400.0,
    asks="`GET /api/conversations.history?include_all_metadata=true`",
    source="https://docs.slack.dev/reference/methods/conversations.history",
)
SLACK = GatewayType(
    "slack",
    Channel.SOCIAL,
    frozenset({"invalid_request", "invalid_recipient", "invalid_message", "unauthorized"}),
    evidence=Evidence(LOOK_UP),
)
OURS: Final[Reasons] = {
    **dict.fromkeys(
        (
            "not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired",
            "no_permission", "missing_scope", "not_allowed_token_type", "org_login_required",
            "ekm_access_denied", "team_access_not_granted", "access_denied",
        ),
        "unauthorized",
    ),
    **dict.fromkeys(
        ("channel_not_found", "not_in_channel", "is_archived", "restricted_action",
         "restricted_action_read_only_channel", "cannot_reply_to_message"),
        CONVERSATION_REFUSED,
    ),
}  # fmt: skip
REASONS: Final[Reasons] = {
    "msg_too_long": "invalid_message",
    "no_text": "invalid_message",
    "invalid_blocks": "invalid_message",
    "invalid_blocks_format": "invalid_message",
    "msg_blocks_too_long": "invalid_message",
    "too_many_attachments": "invalid_message",
    "markdown_text_conflict": "invalid_message",
    "invalid_metadata_format": "invalid_request",
    "invalid_metadata_schema": "invalid_request",
    "metadata_too_large": "invalid_request",
    "invalid_arguments": "invalid_request",
    "invalid_json": "invalid_request",
}


class _Answer(msgspec.Struct):
    ok: bool | None = None
    error: str | None = None
    ts: str | None = None
    needed: str = ""


class _Metadata(msgspec.Struct):
    event_type: str = ""
    event_payload: dict[str, Any] = {}


class _Message(msgspec.Struct):
    ts: str
    text: str = ""
    metadata: _Metadata | None = None


class _Cursor(msgspec.Struct):
    next_cursor: str = ""


class _History(msgspec.Struct):
    messages: list[_Message]
    ok: bool
    has_more: bool = False
    response_metadata: _Cursor | None = None


_decoder = msgspec.json.Decoder(_Answer)
_history = msgspec.json.Decoder(_History)


class SlackGateway(ChatGateway):
    type = SLACK
    options = frozenset({"channel"})
    source = "https://docs.slack.dev/reference/methods/chat.postMessage#errors"
    reasons = REASONS
    ours = OURS
    throttles = frozenset({"ratelimited", "rate_limited", "service_unavailable"})
    # "Some aspect of the operation" may have succeeded.
    unfinished = frozenset({"fatal_error", "internal_error", "request_timeout"})
    refuses_with_success = True

    def __init__(self, target: Target) -> None:
        super().__init__(target, "botToken")
        self._url = base_url(target.url) / "api" / "chat.postMessage"
        self.conversation = target.option("channel")

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        text = _text(content)
        if not content.body.strip() or len(text) > TEXT_MAX_CHARACTERS:
            return Rejected("invalid_message", f"not 1 to {TEXT_MAX_CHARACTERS} characters")
        document: dict[str, Any] = {
            "channel": self.addressee(content),
            "text": text,
            "metadata": {"event_type": EVENT_TYPE, "event_payload": {"reference": reference}},
        }
        if "blocks" in content.payload:
            document["blocks"] = content.payload["blocks"]
        return json_request(self._url, document, self.bearer("botToken"))

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        if answer.ok:
            return ProviderReply(answer.ts)
        detail = f"{answer.error} {answer.needed}".strip() if answer.error else ""
        return ProviderReply(None, answer.error, detail)

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        return await asked_one_by_one(questions, self._found, self.unanswered)

    async def _found(self, question: LookUpQuestion) -> LookedUp:
        message = content(question, addressed=False)
        if message is None:
            return unknown(INCOMPLETE)
        query = {
            "channel": self.addressee(message),
            "include_all_metadata": "true",
            "oldest": f"{question.after.timestamp():.6f}",
            "latest": f"{question.before.timestamp():.6f}",
            "inclusive": "true",
            "limit": str(PAGE_ITEMS),
        }
        url, same = self._url.parent / "conversations.history", list[str]()
        for _ in range(LOOK_UP_PAGES):
            page = await get_json(
                self._client, url.with_query(query), _history, self.bearer("botToken"),
                asked_at=question.asked_at,
            )  # fmt: skip
            if not page.ok:
                raise NoAnswer("Slack shows no history")
            same += [each.ts for each in page.messages if _is(each, question.reference)]
            cursor = (page.response_metadata or _Cursor()).next_cursor
            if same:
                return found_by_reference(same)
            if any(_may_be(each, message) for each in page.messages):
                raise NoAnswer("it shows a message of this text without its metadata")
            if not cursor:
                if page.has_more:
                    raise NoAnswer("its history is cut off")
                return ABSENT
            query["cursor"] = cursor
        raise NoAnswer(f"more than {LOOK_UP_PAGES} pages")

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://docs.slack.dev/reference/methods/auth.test
        question = Question(
            self._url.parent / "auth.test", self.bearer("botToken"), "botToken", method="POST"
        )
        return await self.ask(question, seconds)


def _may_be(message: _Message, ours: Content) -> bool:
    """Without a scope for it, Slack leaves out the metadata by which ours is known."""
    return message.metadata is None and html.unescape(message.text).strip() == _text(ours).strip()


def _text(content: Content) -> str:
    return f"*{content.subject}*\n{content.body}" if content.subject else content.body


def _is(message: _Message, reference: str) -> bool:
    metadata = message.metadata or _Metadata()
    return metadata.event_type == EVENT_TYPE and metadata.event_payload.get("reference") == (
        reference
    )


FAMILY = Family(SLACK, SlackGateway)
