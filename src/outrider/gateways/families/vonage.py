"""The `vonage` gateway type: SMS through Vonage's Messages API.

A reservation becomes `POST {gatewayUrl}/v1/messages` with basic authentication. Vonage has no key
and no look-up by reference; `client_ref` comes back in every report, whose JWT covers the body.

Sources: https://developer.vonage.com/en/api/messages-olympus,
https://developer.vonage.com/en/getting-started/concepts/webhooks#validating-signed-webhooks.
"""

import base64
import hashlib
import hmac
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from outrider.domain.evidence import Evidence, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.domain.webhook_signatures import TOLERANCE_SECONDS, SignatureState
from outrider.gateways.families.sms_provider import (
    SMS_REASONS,
    SmsProviderGateway,
    kept_id,
    with_plus,
)
from outrider.gateways.family import Family, Target
from outrider.gateways.http import base_url
from outrider.gateways.http_check import Question
from outrider.gateways.provider import REFERENCE_HEADER, ProviderReply, Reasons, Request
from outrider.gateways.provider import json_request as json_post
from outrider.gateways.receipt_reading import (
    Malformed,
    ReceiptSecret,
    SignedReader,
    derived_id,
    from_iso,
    kept_text,
    one_line,
    plain_keys,
)
from outrider.limits.gateways import RECEIPT_TEXT_MAX_CHARACTERS
from outrider.ports.receipts import Callback
from outrider.ports.target_check import CheckFinding

CREDENTIAL: Final = "signatureSecret"
CLIENT_REF_MAX_CHARACTERS: Final = 100

VONAGE = GatewayType(
    "vonage", Channel.SMS, SMS_REASONS, evidence=Evidence(receipts=Receipts("`client_ref`"))
)
OURS: Final[Reasons] = {
    "1060": "unauthorized",
    # The account has no credit.
    "1070": "unauthorized",
    "1080": "unauthorized",
}
OURS_FOR_SOME: Final[Reasons] = {
    # A country's rules about senders: other countries take it.
    "1120": "sender_refused",
}
REASONS: Final[Reasons] = {
    "1010": "invalid_request",
    "1020": "invalid_request",
    "1022": "invalid_message",
    "1040": "invalid_message",
    "1050": "suppressed",
    "1090": "invalid_message",
    "1170": "invalid_recipient",
    "1240": "invalid_recipient",
}
BOUNCES: Final[Mapping[str, bool]] = {
    "1170": True,  # not a valid number
    "1180": False,  # absent for now
    "1190": True,  # absent for good
    "1240": True,  # an illegal number
    "1250": True,  # no route to it
    "1260": False,  # the destination cannot be reached
}
"""Errors that are about the recipient, and whether retrying is pointless."""


class _Answer(msgspec.Struct):
    message_uuid: str | None = None
    type: str | None = None
    title: str = ""
    detail: str = ""


_decoder = msgspec.json.Decoder(_Answer)


class VonageGateway(SmsProviderGateway):
    type = VONAGE
    options = frozenset({"from"})
    source = "https://developer.vonage.com/en/api-errors/messages"
    reasons = REASONS
    ours = OURS
    ours_for_some = OURS_FOR_SOME
    # 1100: it was not submitted, because the platform could not reach its own parts.
    throttles = frozenset({"1000", "1100", "1241"})

    def __init__(self, target: Target) -> None:
        super().__init__(target, "apiKey", "apiSecret")
        self._url = base_url(target.url) / "v1" / "messages"
        self._sender = target.option("from")

    def text(self, reference: IdempotencyKey, number: str, body: str) -> Request:
        document = {
            "message_type": "text",
            "channel": "sms",
            "to": number.lstrip("+"),
            "from": self._sender.lstrip("+"),
            "text": body,
        }
        if len(reference) <= CLIENT_REF_MAX_CHARACTERS:
            document["client_ref"] = reference
        return json_post(self._url, document, {REFERENCE_HEADER: reference, **self._basic()})

    def read(self, body: bytes) -> ProviderReply:
        answer = _decoder.decode(body)
        return ProviderReply(answer.message_uuid, _code(answer.type), answer.detail or answer.title)

    def secret_values(self) -> Iterable[str]:
        return [*super().secret_values(), self._basic()["Authorization"].partition(" ")[2]]

    def _basic(self) -> dict[str, str]:
        account = f"{self.credential('apiKey')}:{self.credential('apiSecret')}"
        signed = base64.b64encode(account.encode())
        return {"Authorization": f"Basic {signed.decode()}"}

    async def check(self, seconds: float) -> CheckFinding | None:
        # https://developer.vonage.com/en/api/application.v2#listApplication
        url = self._url.parent.parent / "v2" / "applications"
        question = Question(url.with_query(page_size=1), self._basic(), "apiSecret")
        return await self.ask(question, seconds)


def _code(kind: str | None) -> str | None:
    """The last part of the error's page, such as `…/api-errors/messages#1120`."""
    return None if not kind else kind.rpartition("#")[2] or None


class _Failure(msgspec.Struct):
    type: str = ""
    title: str | int = ""
    detail: str = ""


class _Report(msgspec.Struct):
    message_uuid: str
    status: str = ""
    to: str = ""
    sender: str = msgspec.field(default="", name="from")
    timestamp: str = ""
    text: str | None = None
    client_ref: str | None = None
    error: _Failure | None = None


_report = msgspec.json.Decoder(_Report)


class VonageReader(SignedReader):
    def state(self, keys: Sequence[bytes], callback: Callback, now: datetime) -> SignatureState:
        scheme, _, token = callback.headers.get("authorization", "").partition(" ")
        if not scheme:
            return SignatureState.UNSIGNED
        for key in keys:
            claims = _claims(token, key) if scheme == "Bearer" else None
            if claims is None:
                continue
            digest = hashlib.sha256(callback.body).hexdigest()
            if not hmac.compare_digest(str(claims.get("payload_hash")).encode(), digest.encode()):
                return SignatureState.FORGED
            issued = claims.get("iat")
            is_recent = isinstance(issued, int) and (
                abs(now.timestamp() - issued) <= TOLERANCE_SECONDS
            )
            return SignatureState.GENUINE if is_recent else SignatureState.STALE
        return SignatureState.FORGED

    def receipts(self, callback: Callback) -> Iterator[Receipt]:
        report = _report.decode(callback.body)
        message_id, at = one_line(report.message_uuid), from_iso(report.timestamp)
        if report.text is not None and not report.status:
            if not report.sender:
                raise Malformed("a message that came in has no sender")
            yield Receipt(
                derived_id(message_id, "received"),
                ReceiptEvent.REPLIED,
                sender=with_plus(report.sender),
                text=kept_text(report.text, RECEIPT_TEXT_MAX_CHARACTERS),
                occurred_at=at,
            )
            return
        error = report.error or _Failure()
        code = _code(error.type) or ""
        event, permanent = _happened(report.status, code)
        if event is None:
            return
        words = (report.status, code, error.detail or str(error.title))
        is_bad = event in (ReceiptEvent.BOUNCED, ReceiptEvent.FAILED)
        yield Receipt(
            derived_id(message_id, report.status, code),
            event,
            kept_id(report.client_ref),
            kept_id(message_id),
            permanent,
            one_line(" ".join(filter(None, words))) if is_bad else "",
            occurred_at=at,
        )


def _happened(status: str, code: str) -> tuple[ReceiptEvent | None, bool]:
    match status:
        case "delivered":
            return ReceiptEvent.DELIVERED, False
        case "read":
            return ReceiptEvent.READ, False
        case "rejected" | "undeliverable":
            bounced = code in BOUNCES
            event = ReceiptEvent.BOUNCED if bounced else ReceiptEvent.FAILED
            return event, BOUNCES.get(code, False)
        case _:
            return None, False


def _claims(token: str, key: bytes) -> dict[str, Any] | None:
    """None: this key did not sign it. Its time is judged by the caller's clock."""
    import jwt

    try:
        with warnings.catch_warnings():
            # Vonage chooses the length of its secrets.
            warnings.simplefilter("ignore")
            found: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=["HS256"],
                options={
                    "verify_exp": False,
                    "verify_iat": False,
                    "verify_nbf": False,
                    "verify_aud": False,
                },
            )
    except (jwt.PyJWTError, ValueError):
        return None
    return found


def receipt_reader(target: Target) -> VonageReader | None:
    if not target.has_credential(CREDENTIAL):
        return None
    return VonageReader(ReceiptSecret(target, CREDENTIAL, plain_keys))


FAMILY = Family(VONAGE, VonageGateway, receipt_reader)
