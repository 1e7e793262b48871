"""The `whatsapp_cloud` gateway type: WhatsApp messages through Meta's Graph API.

A reservation becomes `POST {gatewayUrl}/{version}/{phoneNumberId}/messages`, as free text or as an
approved template with the message's parameters (`whatsapp_templates.py`). The reference is returned
in every receipt, but dedupes nothing.
"""

from typing import Any, Final

import msgspec

from outrider.domain.addresses import normalise_phone
from outrider.domain.call_results import CallResult, Held, Rejected
from outrider.domain.errors import InvalidInput
from outrider.domain.evidence import Evidence, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import Content
from outrider.gateways.families.whatsapp_receipts import receipt_reader
from outrider.gateways.families.whatsapp_templates import UsualTemplate, template_of
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import (
    ProviderGateway,
    ProviderReply,
    Reasons,
    Request,
    json_request,
)
from outrider.ports.gateway import Reservation
from outrider.ports.target_check import CheckFinding

VERSION_DEFAULT: Final = "v23.0"
TEMPLATE_REFUSED: Final = "template_refused"

WHATSAPP_CLOUD = GatewayType(
    "whatsapp_cloud",
    Channel.WHATSAPP,
    frozenset(
        {"invalid_request", "invalid_recipient", "invalid_message", "unauthorized", "suppressed"}
    ),
    evidence=Evidence(receipts=Receipts("`biz_opaque_callback_data`")),
)

OURS: Final[Reasons] = {
    3: "unauthorized",
    10: "unauthorized",
    33: "invalid_setup",
    190: "unauthorized",
    368: "unauthorized",
    131005: "unauthorized",
    131031: "unauthorized",
    131042: "unauthorized",
    # The target's own template is the same for every message.
    132001: TEMPLATE_REFUSED,
    132015: TEMPLATE_REFUSED,
    132016: TEMPLATE_REFUSED,
    133010: "unauthorized",
}
REASONS: Final[Reasons] = {
    100: "invalid_request",
    130472: "suppressed",
    131008: "invalid_request",
    131009: "invalid_request",
    131021: "invalid_recipient",
    131026: "invalid_recipient",
    131030: "invalid_recipient",
    # Free text is only for recipients who wrote within the last day; others need a template.
    131047: "invalid_message",
    131049: "suppressed",
    131050: "suppressed",
    131051: "invalid_message",
    132000: "invalid_message",
    132005: "invalid_message",
    132007: "invalid_message",
    132012: "invalid_message",
    132018: "invalid_message",
    132068: "invalid_message",
    132069: "invalid_message",
}


class _Message(msgspec.Struct):
    id: str | None = None


class _Error(msgspec.Struct):
    code: int | None = None
    message: str = ""


class _Answer(msgspec.Struct):
    messages: list[_Message] = []
    error: _Error | None = None


_decoder = msgspec.json.Decoder(_Answer)


class WhatsAppCloudGateway(ProviderGateway):
    type = WHATSAPP_CLOUD
    options = frozenset(
        {
            "version",
            "phoneNumberId",
            "template",
            "templateLanguage",
            "templateHeader",
            "templateButtons",
        }
    )
    source = "https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes"
    reasons = REASONS
    ours = OURS
    throttles = frozenset({4, 80007, 130429, 131048, 131056, 131057})

    def __init__(self, target: Target) -> None:
        super().__init__(target, "accessToken")
        version = target.option("version", VERSION_DEFAULT)
        number = target.option("phoneNumberId")
        self._url = base_url(target.url) / version / number / "messages"
        self._template = UsualTemplate.of(target)

    async def call(self, reservation: Reservation) -> CallResult:
        result = await super().call(reservation)
        own = (reservation.payload or {}).get("template")
        if isinstance(result, Held) and result.reason == TEMPLATE_REFUSED and own is not None:
            # The message chose this template itself, so others may well be accepted.
            return Rejected("invalid_message", result.detail)
        return result

    def compose(self, reference: IdempotencyKey, content: Content) -> Request | Rejected:
        number = normalise_phone(content.to)
        if number is None:
            return Rejected("invalid_recipient", "not an E.164 phone number")
        try:
            template = template_of(content, self._template)
        except InvalidInput as error:
            return Rejected("invalid_message", error.message)
        document: dict[str, Any] = {
            "messaging_product": "whatsapp",
            "recipient_type": "individual",
            "to": number,
            "biz_opaque_callback_data": reference,
        }
        if template is None:
            text = {"preview_url": False, "body": content.body}
            document |= {"type": "text", "text": text}
        else:
            document |= {"type": "template", "template": template}
        return json_request(self._url, document, self.bearer("accessToken"))

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        error = answer.error or _Error()
        message_id = answer.messages[0].id if answer.messages else None
        return ProviderReply(message_id, error.code, error.message)

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://developers.facebook.com/docs/graph-api/reference/whats-app-business-account-to-number-current-status
        question = Question(
            self._url.parent.with_query(fields="id"),
            self.bearer("accessToken"),
            "accessToken",
            ("phoneNumberId", "version"),
        )
        return await self.ask(question, seconds)


FAMILY = Family(WHATSAPP_CLOUD, WhatsAppCloudGateway, receipt_reader)
