"""The `twilio_sms` and `twilio_voice` gateway types: forms over HTTP, with basic authentication.

A reservation becomes one POST to the account's Messages or Calls. Twilio has no idempotency key, so
silence and a broken server are doubt, and the window is as small as the concurrency.
"""

import base64
import re
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final
from xml.sax.saxutils import escape, quoteattr

import msgspec

from outrider.domain.addresses import normalise_phone
from outrider.domain.call_results import Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Evidence, LookedUp, LookUp, Match, Receipts, unknown
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import INCOMPLETE, Content, content
from outrider.gateways.families.twilio_look_up import Sent, find
from outrider.gateways.families.twilio_receipts import callback_url, receipt_reader, secret_name
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, fingerprint
from outrider.gateways.provider import (
    REFERENCE_HEADER,
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    form_request,
)
from outrider.limits.gateways import (
    LOOK_UP_FAILURES_MAX,
    LOOK_UP_SECONDS,
    LOOK_UP_WINDOW_SECONDS,
)
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.target_check import CheckFinding

API_VERSION: Final = "2010-04-01"
TWIML_MAX_CHARACTERS: Final = 4_000
TRIAL_PREFIX: Final = "Sent from your Twilio trial account - "
"""https://help.twilio.com/articles/223134167: Twilio puts it before a trial account's texts."""

_REASONS = frozenset({"invalid_request", "invalid_recipient", "invalid_message", "unauthorized"})
# Twilio documents no delay of its lists: two minutes are ours. It keeps messages and calls for more
# than a year, which is longer than anybody waits for a verdict.
_DELAY_SECONDS: Final = 120.0
_RETENTION_SECONDS: Final = 30 * 86_400.0
_RECEIPTS: Final = Receipts("the message's own `StatusCallback` URL")
SMS_LOOK_UP: Final = LookUp(
    Match.CONTENT,
    _DELAY_SECONDS,
    _RETENTION_SECONDS,
    asks="`GET Messages.json?To=`",
    source="https://www.twilio.com/docs/messaging/api/message-resource"
    "#read-multiple-message-resources",
    compares=("recipient", "time", "body"),
)
VOICE_LOOK_UP: Final = LookUp(
    Match.CONTENT,
    _DELAY_SECONDS,
    _RETENTION_SECONDS,
    asks="`GET Calls.json?To=`",
    source="https://www.twilio.com/docs/voice/api/call-resource#read-multiple-call-resources",
    # What was spoken is not part of a call's record.
    compares=("recipient", "sender", "time"),
)
TWILIO_SMS = GatewayType(
    "twilio_sms",
    Channel.SMS,
    _REASONS | {"suppressed"},
    evidence=Evidence(SMS_LOOK_UP, _RECEIPTS),
    # https://help.twilio.com/articles/223134027: default handling of STOP and HELP.
    answers_opt_outs=True,
)
TWILIO_VOICE = GatewayType(
    "twilio_voice", Channel.VOICE, _REASONS, evidence=Evidence(VOICE_LOOK_UP, _RECEIPTS)
)

SMS_OURS: Final[Reasons] = {
    20003: "unauthorized",
    20404: "invalid_setup",
    21212: "sender_refused",
    21606: "sender_refused",
}
VOICE_OURS: Final[Reasons] = {
    20003: "unauthorized",
    20404: "invalid_setup",
    21210: "sender_refused",
    21212: "sender_refused",
    21213: "sender_refused",
}
# An account's restriction on a region or an unverified number is about that recipient: it must not
# hold up the others.
SMS_REASONS: Final[Reasons] = {
    21211: "invalid_recipient",
    21408: "invalid_recipient",
    21602: "invalid_message",
    21604: "invalid_recipient",
    21608: "invalid_recipient",
    21610: "suppressed",
    21612: "invalid_recipient",
    21614: "invalid_recipient",
    21617: "invalid_message",
    21619: "invalid_message",
}
VOICE_REASONS: Final[Reasons] = {
    21201: "invalid_recipient",
    21211: "invalid_recipient",
    21214: "invalid_recipient",
    21215: "invalid_recipient",
    21216: "invalid_recipient",
    21217: "invalid_recipient",
    21219: "invalid_recipient",
    32018: "invalid_message",
}

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _Answer(msgspec.Struct):
    sid: str | None = None
    code: int | None = None
    message: str | None = None


_decoder = msgspec.json.Decoder(_Answer)


class TwilioGateway(ProviderGateway):
    """What both resources of an account share; `resource` names the one."""

    resource: str
    source = "https://www.twilio.com/docs/api/errors"
    throttles = frozenset({10004, 14107, 20429, 21611})

    def __init__(self, target: Target) -> None:
        super().__init__(target, "authToken")
        account = target.option("accountSid")
        self._url = base_url(target.url) / API_VERSION / "Accounts" / account / self.resource
        # An API key signs in under its own name, with its secret as the token.
        self._user = target.option("apiKeySid", account)
        # Only if we can verify what comes back.
        self._receipts_url = target.receipts_url if secret_name(target) is not None else None

    def send(self, reference: IdempotencyKey, fields: Mapping[str, str | None]) -> Request:
        headers = {"Authorization": f"Basic {self._basic()}", REFERENCE_HEADER: reference}
        if self._receipts_url is not None:
            fields = {**fields, "StatusCallback": callback_url(self._receipts_url, reference)}
        return form_request(self._url, fields, headers)

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.sid, answer.code, answer.message or "")

    def secret_values(self) -> Iterable[str]:
        return [*super().secret_values(), self._basic()]

    def _basic(self) -> str:
        return base64.b64encode(f"{self._user}:{self.credential('authToken')}".encode()).decode()

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        answers, failures = dict[IdempotencyKey, LookedUp](), 0
        until = time.monotonic() + LOOK_UP_WINDOW_SECONDS - LOOK_UP_SECONDS
        for question in questions:
            if time.monotonic() > until:
                # The others get no answer for now.
                break
            message = content(question)
            number = None if message is None else normalise_phone(message.to)
            if message is None or number is None:
                answers[question.reference] = unknown(INCOMPLETE)
                continue
            agrees = partial(self.agrees, message)
            try:
                answers[question.reference] = await find(
                    self._client, self._url, f"Basic {self._basic()}", number, question, agrees
                )
                failures = 0
            except NoAnswer as error:
                failures += 1
                answers[question.reference] = self.unanswered(error)
                if failures == LOOK_UP_FAILURES_MAX or error.retry_after_seconds is not None:
                    break
        return answers

    @property
    def records(self) -> str:
        return fingerprint(self._url)

    @abstractmethod
    def agrees(self, message: Content, sent: Sent) -> bool:
        """Whether what was sent to this number at that time is this message."""

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://www.twilio.com/docs/messaging/api/message-resource#read-multiple-message-resources
        # Not the account itself: https://www.twilio.com/docs/usage/api/keys says that standard API
        # keys, which may send, may not read it.
        question = Question(
            self._url.with_query(PageSize=1),
            {"Authorization": f"Basic {self._basic()}"},
            "authToken",
            ("accountSid",),
            # https://www.twilio.com/docs/api/errors/70051: perhaps a key restricted to sending.
            may_not_read=frozenset({70051}),
        )
        return await self.ask(question, seconds)


class TwilioSmsGateway(TwilioGateway):
    type = TWILIO_SMS
    resource = "Messages.json"
    options = frozenset({"accountSid", "apiKeySid", "from", "messagingServiceSid"})
    reasons = SMS_REASONS
    ours = SMS_OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._service = target.option("messagingServiceSid", "") or None
        self._sender = target.option("from", "" if self._service else None) or None

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        number = normalise_phone(content.to)
        if number is None:
            return Rejected("invalid_recipient", "not an E.164 phone number")
        fields = {
            "To": number,
            "From": self._sender,
            "MessagingServiceSid": self._service,
            "Body": content.body,
        }
        return self.send(reference, fields)

    def agrees(self, message: Content, sent: Sent) -> bool:
        # A message of a messaging service has the number that the service chose.
        is_ours = self._sender is None or _same_sender(self._sender, sent.sender)
        text = (sent.body or "").removeprefix(TRIAL_PREFIX).strip()
        return is_ours and text == message.body.strip()


class TwilioVoiceGateway(TwilioGateway):
    """Calls the number and speaks the body; the subject is omitted."""

    type = TWILIO_VOICE
    resource = "Calls.json"
    options = frozenset({"accountSid", "apiKeySid", "from", "voice", "language"})
    reasons = VOICE_REASONS
    ours = VOICE_OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._sender = target.option("from")
        manner = {name: target.option(name, "") for name in ("voice", "language")}
        self._manner = "".join(
            f" {name}={quoteattr(value)}" for name, value in manner.items() if value
        )
        if _NOT_XML.search(self._manner):
            raise InvalidInput(f"the voice of submission target '{target.name}' is not a string")

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        number = normalise_phone(content.to)
        if number is None:
            return Rejected("invalid_recipient", "not an E.164 phone number")
        if not content.body.strip() or _NOT_XML.search(content.body):
            return Rejected("invalid_message", "nothing to say")
        twiml = f"<Response><Say{self._manner}>{escape(content.body)}</Say></Response>"
        if len(twiml) > TWIML_MAX_CHARACTERS:
            return Rejected("invalid_message", f"TwiML of more than {TWIML_MAX_CHARACTERS}")
        return self.send(reference, {"To": number, "From": self._sender, "Twiml": twiml})

    def agrees(self, message: Content, sent: Sent) -> bool:  # noqa: ARG002
        return _same_sender(self._sender, sent.sender)


def _same_sender(ours: str, theirs: str | None) -> bool:
    """However a number is spelt. Another sender's message is not ours, but it is no proof that
    there is none: the target may have had another sender at the time of the call."""
    given = theirs or ""
    return given.lower() == ours.lower() or (
        normalise_phone(given) is not None and normalise_phone(given) == normalise_phone(ours)
    )


SMS_FAMILY = Family(TWILIO_SMS, TwilioSmsGateway, receipt_reader)
VOICE_FAMILY = Family(TWILIO_VOICE, TwilioVoiceGateway, receipt_reader)
