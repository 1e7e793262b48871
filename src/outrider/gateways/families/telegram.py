"""The `telegram` gateway type: a post in a Telegram chat or channel, by a bot.

A reservation becomes `POST {gatewayUrl}/bot{botToken}/sendMessage`. Telegram has no key, no look-up
and no receipts for bots, so silence is doubt. The token is part of the URL, which is never shown.

Sources: https://core.telegram.org/bots/api#making-requests,
https://core.telegram.org/bots/api#sendmessage, https://core.telegram.org/bots/faq (limits).
"""

from dataclasses import replace
from typing import Any, Final

import msgspec
from yarl import URL

from outrider.domain.call_results import CallResult, Rejected, Throttled
from outrider.domain.errors import InvalidInput
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.families.chat import CONVERSATION_REFUSED, ChatGateway
from outrider.gateways.family import Family, Target
from outrider.gateways.http import ReceivedAnswer, base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import (
    REFERENCE_HEADER,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.ports.target_check import CheckFinding

TEXT_MAX_CHARACTERS: Final = 4_096
PARSE_MODES: Final = frozenset({"HTML", "MarkdownV2"})

TELEGRAM = GatewayType(
    "telegram",
    Channel.SOCIAL,
    frozenset(
        {"invalid_request", "invalid_recipient", "invalid_message", "suppressed", "unauthorized"}
    ),
)
# Telegram's errors are sentences; their descriptions are the codes.
OURS: Final[Reasons] = {
    "Unauthorized": "unauthorized",
    # What an unknown or malformed token is answered with.
    "Not Found": "unauthorized",
    "Bad Request: chat not found": CONVERSATION_REFUSED,
    "Forbidden: bot was kicked from the group chat": CONVERSATION_REFUSED,
    "Forbidden: bot was kicked from the supergroup chat": CONVERSATION_REFUSED,
    "Forbidden: bot is not a member of the channel chat": CONVERSATION_REFUSED,
    "Bad Request: need administrator rights in the channel chat": CONVERSATION_REFUSED,
    "Bad Request: not enough rights to send text messages to the chat": CONVERSATION_REFUSED,
}
REASONS: Final[Reasons] = {
    "Forbidden: bot was blocked by the user": "suppressed",
    "Forbidden: user is deactivated": "invalid_recipient",
    "Forbidden: bot can't initiate conversation with a user": "invalid_recipient",
    "Bad Request: message is too long": "invalid_message",
    "Bad Request: message text is empty": "invalid_message",
}


class _Result(msgspec.Struct):
    message_id: int | None = None


class _Parameters(msgspec.Struct):
    retry_after: float | None = None


class _Answer(msgspec.Struct):
    ok: bool | None = None
    result: _Result | None = None
    description: str | None = None
    parameters: _Parameters | None = None


_decoder = msgspec.json.Decoder(_Answer)


class TelegramGateway(ChatGateway):
    type = TELEGRAM
    options = frozenset({"chatId", "parseMode", "silent"})
    source = "https://core.telegram.org/bots/api#making-requests"
    reasons = REASONS
    ours = OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target, "botToken")
        self._host = base_url(target.url)
        self.conversation = target.option("chatId")
        self._parse_mode = target.option("parseMode", "")
        self._silent = target.option("silent", "false")
        if self._parse_mode and self._parse_mode not in PARSE_MODES:
            raise InvalidInput(f"parseMode of '{target.name}' is not HTML or MarkdownV2")
        if self._silent not in ("true", "false"):
            raise InvalidInput(f"silent of '{target.name}' is neither true nor false")

    def _method(self, name: str) -> URL:
        return self._host / f"bot{self.credential('botToken')}" / name

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        text = f"{content.subject}\n\n{content.body}" if content.subject else content.body
        if not content.body.strip() or len(text) > TEXT_MAX_CHARACTERS:
            return Rejected("invalid_message", f"not 1 to {TEXT_MAX_CHARACTERS} characters")
        document: dict[str, Any] = {"chat_id": self.addressee(content), "text": text}
        if self._parse_mode:
            document["parse_mode"] = self._parse_mode
        if self._silent == "true":
            document["disable_notification"] = True
        return json_request(self._method("sendMessage"), document, {REFERENCE_HEADER: reference})

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        if answer.ok and answer.result is not None and answer.result.message_id is not None:
            return ProviderReply(str(answer.result.message_id))
        return ProviderReply(None, answer.description, answer.description or "")

    def _interpret(self, answer: ReceivedAnswer) -> CallResult:
        result = super()._interpret(answer)
        if not isinstance(result, Throttled) or result.retry_after_seconds is not None:
            return result
        # Telegram says in the body what others say in Retry-After.
        try:
            parameters = _decoder.decode(answer.body).parameters or _Parameters()
        except msgspec.MsgspecError:
            return result
        return replace(result, retry_after_seconds=parameters.retry_after)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://core.telegram.org/bots/api#getme
        finding = await self.ask(Question(self._method("getMe"), {}, "botToken"), seconds)
        if finding is None:
            return None
        return replace(finding, message=self._detail(finding.message))


FAMILY = Family(TELEGRAM, TelegramGateway)
