"""The `sinch` gateway type: SMS through Sinch's REST API.

A reservation becomes `POST {gatewayUrl}/xms/v1/{servicePlanId}/batches`, a batch of one. Our
reference is its `client_reference`: Sinch can be asked for it, and returns it in reports, but does
not refuse a repeat.

Sources: https://developers.sinch.com/docs/sms/api-reference/sms/batches,
https://developers.sinch.com/docs/sms/api-reference/sms/delivery-reports,
https://developers.sinch.com/docs/sms/api-reference/sms/webhooks (the signature).
"""

import base64
import hmac
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from outrider.domain.evidence import Evidence, LookedUp, LookUp, Match, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.domain.webhook_signatures import TOLERANCE_SECONDS, SignatureState
from outrider.gateways.families.sms_provider import (
    LOOK_UP_DELAY_SECONDS,
    SMS_REASONS,
    SmsProviderGateway,
    kept_id,
    with_plus,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.look_ups import NoAnswer, asked_one_by_one, found_by_reference, get_json
from outrider.gateways.provider import ProviderReply, Reasons, Request, json_request
from outrider.gateways.receipt_reading import (
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_iso,
    kept_text,
    one_line,
    plain_keys,
)
from outrider.limits.gateways import RECEIPT_TEXT_MAX_CHARACTERS
from outrider.ports.gateway import LookUpQuestion
from outrider.ports.receipts import Callback
from outrider.ports.target_check import CheckFinding

CREDENTIAL: Final = "webhookSecret"
SIGNATURE_HEADER: Final = "x-sinch-webhook-signature"
NONCE_HEADER: Final = "x-sinch-webhook-signature-nonce"
TIMESTAMP_HEADER: Final = "x-sinch-webhook-signature-timestamp"
DELIVERED: Final = 0

LOOK_UP: Final = LookUp(
    Match.REFERENCE,
    LOOK_UP_DELAY_SECONDS,
    # Sinch lists the last day unless it is asked for more; how long it keeps batches, it does not
    # say. Two weeks is what it says of messages that came in.
    retention_seconds=7 * 86_400.0,
    asks="`GET batches?client_reference=`",
    source="https://developers.sinch.com/docs/sms/api-reference/sms/batches/listbatches",
)
SINCH = GatewayType(
    "sinch", Channel.SMS, SMS_REASONS, evidence=Evidence(LOOK_UP, Receipts("`client_reference`"))
)
OURS: Final[Reasons] = {"missing_callback_url": "invalid_setup"}
REASONS: Final[Reasons] = {
    "syntax_invalid_json": "invalid_request",
    "syntax_invalid_parameter_format": "invalid_request",
    "syntax_constraint_violation": "invalid_request",
    "missing_parameter": "invalid_request",
    "unknown_group": "invalid_recipient",
}
BOUNCES: Final[Mapping[int, bool]] = {
    402: True,  # unroutable: retrying is likely to end the same way
    404: False,  # a temporary failure to deliver
}
"""Codes that are about the recipient, and whether retrying is pointless."""
FAILED: Final = frozenset({"aborted", "cancelled", "rejected", "deleted", "failed", "expired"})


class _Answer(msgspec.Struct):
    id: str | None = None
    code: str | int | None = None
    text: str = ""


class _Batch(msgspec.Struct):
    id: str
    client_reference: str | None = None


class _Batches(msgspec.Struct):
    count: int
    batches: list[_Batch]


_decoder = msgspec.json.Decoder(_Answer)
_batches = msgspec.json.Decoder(_Batches)


class SinchGateway(SmsProviderGateway):
    type = SINCH
    options = frozenset({"servicePlanId", "from"})
    source = "https://developers.sinch.com/docs/sms/api-reference/status-codes"
    reasons = REASONS
    ours = OURS

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiToken")
        plan = target.option("servicePlanId")
        self._url = base_url(target.url) / "xms" / "v1" / plan / "batches"
        self._sender = target.option("from", "") or None
        self._receipts_url = target.receipts_url if target.has_credential(CREDENTIAL) else None

    def text(self, reference: IdempotencyKey, number: str, body: str) -> Request:
        document: dict[str, object] = {
            "to": [number.lstrip("+")],
            "body": body,
            "client_reference": reference,
        }
        if self._sender is not None:
            document["from"] = self._sender
        if self._receipts_url is not None:
            document |= {"delivery_report": "per_recipient", "callback_url": self._receipts_url}
        return json_request(self._url, document, self.bearer("apiToken"))

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.id, answer.code, answer.text)

    async def find(self, questions: Sequence[LookUpQuestion]) -> Mapping[IdempotencyKey, LookedUp]:
        return await asked_one_by_one(questions, self._found, self.unanswered)

    async def _found(self, question: LookUpQuestion) -> LookedUp:
        query = {
            "client_reference": question.reference,
            "start_date": question.after.isoformat(timespec="milliseconds"),
            "page_size": "30",
        }
        page = await get_json(
            self._client, self._url.with_query(query), _batches, self.bearer("apiToken"),
            asked_at=question.asked_at,
        )  # fmt: skip
        same = [each.id for each in page.batches if each.client_reference == question.reference]
        if not same and (page.count or page.batches):
            raise NoAnswer("it lists batches with other references")
        return found_by_reference(same)

    async def check(self, seconds: float) -> CheckFinding | None:
        url, token = self._url.with_query(page_size=1), self.bearer("apiToken")
        return await self.ask(Question(url, token, "apiToken", ("servicePlanId",)), seconds)


class _Report(msgspec.Struct):
    type: str
    batch_id: str | None = None
    id: str | None = None
    status: str = ""
    code: int | None = None
    at: str = ""
    received_at: str = ""
    recipient: str = ""
    sender: str = msgspec.field(default="", name="from")
    body: str = ""
    client_reference: str | None = None


_report = msgspec.json.Decoder(_Report)


def signature(key: bytes, body: bytes, nonce: str, timestamp: str) -> str:
    signed = b".".join((body, nonce.encode(errors="replace"), timestamp.encode(errors="replace")))
    return base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


class SinchReader(SignedReader):
    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        names = (SIGNATURE_HEADER, NONCE_HEADER, TIMESTAMP_HEADER)
        given, nonce, time = (callback.headers.get(name, "") for name in names)
        if not (given and nonce and time):
            return SignatureState.UNSIGNED
        text = given.encode(errors="replace")
        made = [signature(key, callback.body, nonce, time).encode() for key in keys]
        if not any(hmac.compare_digest(each, text) for each in made):
            return SignatureState.FORGED
        is_recent = time.isdecimal() and abs(now.timestamp() - int(time)) <= TOLERANCE_SECONDS
        return SignatureState.GENUINE if is_recent else SignatureState.STALE

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        report = _report.decode(callback.body)
        if report.type == "mo_text" and report.id and report.sender:
            yield Receipt(
                derived_id(one_line(report.id), "received"),
                ReceiptEvent.REPLIED,
                sender=with_plus(report.sender),
                text=kept_text(report.body, RECEIPT_TEXT_MAX_CHARACTERS),
                occurred_at=from_iso(report.received_at),
            )
        if not report.type.startswith("recipient_delivery_report") or not report.batch_id:
            return
        status, code = report.status.lower(), report.code
        if status != "delivered" and status not in FAILED:
            return
        event, permanent = ReceiptEvent.DELIVERED, False
        if status in FAILED:
            event = ReceiptEvent.BOUNCED if code in BOUNCES else ReceiptEvent.FAILED
            permanent = BOUNCES.get(code or DELIVERED, False)
        yield Receipt(
            derived_id(one_line(report.batch_id), report.recipient, status, str(code)),
            event,
            kept_id(report.client_reference),
            kept_id(report.batch_id),
            permanent,
            "" if event is ReceiptEvent.DELIVERED else one_line(f"{status} {code}"),
            occurred_at=from_iso(report.at),
        )


def receipt_reader(target: Target) -> SinchReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return SinchReader(ReceiptSecret(target, CREDENTIAL, plain_keys))


FAMILY = Family(SINCH, SinchGateway, receipt_reader)
