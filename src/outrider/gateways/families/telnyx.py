"""The `telnyx` gateway type: SMS through Telnyx, deduplicated by reference for a day.

A reservation becomes `POST {gatewayUrl}/v2/messages` under its own Idempotency-Key; a repeat must
be the same to the byte. Each message names its own webhook URL, which comes back inside the signed
body of its reports.

Sources: https://developers.telnyx.com/docs/development/api-fundamentals/idempotency,
https://developers.telnyx.com/docs/messaging/messages/error-codes.
"""

import hashlib
import re
from dataclasses import replace
from typing import Final

import msgspec

from outrider.domain.call_results import DUPLICATE_REFERENCE
from outrider.domain.evidence import Evidence, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import ReferenceMemory
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.families.sms_provider import (
    SMS_REASONS,
    SmsProviderGateway,
    callback_url,
)
from outrider.gateways.families.telnyx_receipts import CREDENTIAL, receipt_reader
from outrider.gateways.family import Family, Target
from outrider.gateways.http import ReceivedAnswer, base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import fingerprint
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.ports.target_check import CheckFinding

_KEY = re.compile(r"[A-Za-z0-9_:-]{1,255}\Z")

TELNYX = GatewayType(
    "telnyx",
    Channel.SMS,
    SMS_REASONS | {DUPLICATE_REFERENCE},
    remembers=ReferenceMemory.parse("24h"),
    evidence=Evidence(
        receipts=Receipts("the message's own `webhook_url`"), needs_same_request=True
    ),
    # https://developers.telnyx.com/docs/messaging/messages/advanced-opt-in-out: STOP and HELP.
    answers_opt_outs=True,
)
OTHER_REQUEST: Final = "422 about the Idempotency-Key"
OURS: Final[Reasons] = {
    "10009": "unauthorized",
    "10010": "unauthorized",
    "40305": "sender_refused",
    "40306": "sender_refused",
    "40312": "sender_refused",
    "40314": "unauthorized",
}
REASONS: Final[Reasons] = {
    "10002": "invalid_recipient",
    "10004": "invalid_request",
    "10015": "invalid_request",
    "10016": "invalid_recipient",
    "40300": "suppressed",
    "40302": "invalid_message",
    "40309": "invalid_recipient",
    "40310": "invalid_recipient",
    "40316": "invalid_message",
    # The key belongs to a message that was taken with another body, so the first one counts.
    OTHER_REQUEST: DUPLICATE_REFERENCE,
}


class _Data(msgspec.Struct):
    id: str | None = None


class _Error(msgspec.Struct):
    code: str | int | None = None
    title: str = ""
    detail: str | None = None


class _Answer(msgspec.Struct):
    data: _Data | None = None
    errors: list[_Error] = []


_decoder = msgspec.json.Decoder(_Answer)


class TelnyxGateway(SmsProviderGateway):
    type = TELNYX
    options = frozenset({"from", "messagingProfileId"})
    source = "https://developers.telnyx.com/docs/messaging/messages/error-codes"
    reasons = REASONS
    ours = OURS
    throttles = frozenset({"10011", "40318"})

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey")
        self._url = base_url(target.url) / "v2" / "messages"
        self._profile = target.option("messagingProfileId", "")
        self._sender = target.option("from", "" if self._profile else None)
        reports = target.receipts_url if target.has_credential(CREDENTIAL) else None
        self._receipts_url = reports
        self.recipe = fingerprint(self.recipe, reports)

    def text(self, reference: IdempotencyKey, number: str, body: str) -> Request:
        document = {"to": number, "text": body}
        if self._sender:
            document["from"] = self._sender
        if self._profile:
            document["messaging_profile_id"] = self._profile
        if self._receipts_url is not None:
            document["webhook_url"] = callback_url(self._receipts_url, reference)
        headers = {"Idempotency-Key": _key(reference), **self.bearer("apiKey")}
        return json_request(self._url, document, headers)

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        error = answer.errors[0] if answer.errors else _Error()
        code = None if error.code is None else str(error.code)
        message_id = None if answer.data is None else answer.data.id
        return ProviderReply(message_id, code, " ".join(filter(None, (error.title, error.detail))))

    def read_answer(self, answer: ReceivedAnswer) -> ProviderReply:
        """Its page gives this refusal a status and no code, so it is recognised by its subject."""
        reply = self.read(answer.body)
        is_about_key = answer.status == 422 and "idempotency" in reply.detail.lower()
        return replace(reply, code=OTHER_REQUEST) if is_about_key else reply

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://developers.telnyx.com/api/messaging/list-messaging-profiles
        url = self._url.parent / "messaging_profiles"
        question = Question(url.with_query({"page[size]": 1}), self.bearer("apiKey"), "apiKey")
        return await self.ask(question, seconds)


def _key(reference: str) -> str:
    """Telnyx's keys have letters, digits, `_`, `:` and `-` only."""
    return reference if _KEY.match(reference) else hashlib.sha256(reference.encode()).hexdigest()


FAMILY = Family(TELNYX, TelnyxGateway, receipt_reader)
