"""The `ses` gateway type: e-mail through Amazon SES, API v2, signed with an access key.

A reservation becomes `POST {gatewayUrl}/v2/email/outbound-emails`. The reference is a tag of the
message, which comes back in the events of its configuration set. SES has no send-side key and
cannot be asked for what it took.

Sources: https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html,
…/APIReference-V2/CommonErrors.html,
https://docs.aws.amazon.com/ses/latest/dg/troubleshoot-error-messages.html ("not verified"),
https://docs.aws.amazon.com/ses/latest/dg/event-publishing-send-email.html (tags).
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import msgspec
from yarl import URL

from outrider.domain.evidence import Evidence, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.families.mail_provider import (
    MAIL_REASONS,
    REFERENCE_NAME,
    MailProviderGateway,
    attached,
    is_plain,
    own_headers,
    reply_to,
)
from outrider.gateways.families.ses_receipts import RECEIPT_OPTIONS, receipt_reader
from outrider.gateways.family import Family, Target
from outrider.gateways.http import ReceivedAnswer, base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import ProviderReply, Reasons, Request
from outrider.gateways.sigv4 import AwsKey, signed_headers
from outrider.ports.target_check import CheckFinding

SERVICE: Final = "ses"
TAG_MAX_CHARACTERS: Final = 256
JSON: Final = "application/json"

SES = GatewayType(
    "ses",
    Channel.EMAIL,
    MAIL_REASONS,
    evidence=Evidence(receipts=Receipts("tag `outrider_reference`")),
)

NOT_VERIFIED: Final = "MessageRejected: not verified"
OURS: Final[Reasons] = {
    "AccessDeniedException": "unauthorized",
    "ExpiredTokenException": "unauthorized",
    "IncompleteSignatureException": "unauthorized",
    "InvalidSignatureException": "unauthorized",
    "MissingAuthenticationTokenException": "unauthorized",
    "OptInRequired": "unauthorized",
    "SignatureDoesNotMatch": "unauthorized",
    "UnrecognizedClientException": "unauthorized",
    "AccountSuspendedException": "account_refused",
    "SendingPausedException": "account_refused",
    "MailFromDomainNotVerifiedException": "sender_refused",
    NOT_VERIFIED: "sender_refused",
    # The configuration set: the request names nothing else.
    "NotFoundException": "invalid_setup",
}
REASONS: Final[Reasons] = {
    "BadRequestException": "invalid_request",
    "ValidationError": "invalid_request",
    "MessageRejected": "invalid_message",
}


class _Answer(msgspec.Struct):
    message_id: str | None = msgspec.field(default=None, name="MessageId")
    message: str | None = None
    kind: str | None = msgspec.field(default=None, name="__type")


_decoder = msgspec.json.Decoder(_Answer)


class SesGateway(MailProviderGateway):
    type = SES
    options = frozenset({"from", "region", "configurationSet"}) | RECEIPT_OPTIONS
    source = "https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_SendEmail.html"
    reasons = REASONS
    ours = OURS
    throttles = frozenset(
        {"TooManyRequestsException", "ThrottlingException", "LimitExceededException"}
    )

    def __init__(
        self, target: Target, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        token = ["sessionToken"] if target.has_credential("sessionToken") else []
        super().__init__(target, "accessKeyId", "secretAccessKey", *token)
        self._base_url = base_url(target.url) / "v2" / "email"
        self._region = target.option("region", _region_of(self._base_url.host or ""))
        self._configuration_set = target.option("configurationSet", "") or None
        self._has_token, self._now = bool(token), now

    def mail(self, reference: IdempotencyKey, recipient: str, content: Content) -> Request:
        headers = own_headers(reference, content)
        simple: dict[str, object] = {
            "Subject": _text(content.subject or ""),
            "Body": {"Html" if content.html else "Text": _text(content.body)},
            "Headers": [{"Name": name, "Value": value} for name, value in headers.items()],
        }
        if content.enclosures:
            simple["Attachments"] = attached(content, "FileName", "RawContent", "ContentType")
        document: dict[str, object] = {
            "FromEmailAddress": self.sender_of(content).header("From"),
            "Destination": {"ToAddresses": [recipient]},
            "Content": {"Simple": simple},
        }
        if answers := reply_to(content):
            document["ReplyToAddresses"] = [answers.header("Reply-To")]
        if self._configuration_set is not None:
            document["ConfigurationSetName"] = self._configuration_set
        if is_plain(reference, TAG_MAX_CHARACTERS):
            document["EmailTags"] = [{"Name": REFERENCE_NAME, "Value": reference}]
        url, body = self._base_url / "outbound-emails", msgspec.json.encode(document)
        return Request(url, body, JSON, self._signed("POST", url, body))

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.message_id, answer.kind, answer.message or "")

    def read_answer(self, answer: ReceivedAnswer) -> ProviderReply:
        """The error's name is in a header, before a colon and where it is documented."""
        said = self.read(answer.body)
        name = answer.headers.get("x-amzn-errortype") or str(said.code or "")
        name = name.partition(":")[0].rpartition("#")[2]
        if name == "MessageRejected" and "not verified" in said.detail:
            name = NOT_VERIFIED
        return ProviderReply(said.message_id, name or None, said.detail)

    def _signed(self, method: str, url: URL, body: bytes = b"") -> dict[str, str]:
        token = self.credential("sessionToken") if self._has_token else None
        key = AwsKey(self.credential("accessKeyId"), self.credential("secretAccessKey"), token)
        return signed_headers(key, self._region, SERVICE, method, url, body, self._now())

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_GetAccount.html
        url = self._base_url / "account"
        # A policy that allows ses:SendEmail alone.
        may_not_read = frozenset({"AccessDeniedException"})
        headers = self._signed("GET", url)
        question = Question(url, headers, "secretAccessKey", may_not_read=may_not_read)
        return await self.ask(question, seconds)


def _text(data: str) -> dict[str, str]:
    return {"Data": data, "Charset": "UTF-8"}


def _region_of(host: str) -> str | None:
    """`email.eu-west-1.amazonaws.com` says it; any other host needs the option."""
    parts = host.split(".")
    return parts[1] if parts[0].startswith("email") and "amazonaws" in parts[2:] else None


FAMILY = Family(SES, SesGateway, receipt_reader)
