"""The `sms` and `push` gateway types: JSON over HTTP, deduplicated by reference.

A reservation becomes `POST {gatewayUrl}/{gatewayType}/send`; accepted, rejected with a reason of
the taxonomy, or an attempt error comes back. Nothing is guessed: only a well-formed `status` proves
anything, and "come back later" (429, 503) proves that nothing was taken. Any other answer may have
come after the message was taken.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from outrider.domain.call_results import (
    DUPLICATE_REFERENCE,
    INVALID_ANSWER,
    UNAUTHORIZED,
    Accepted,
    AttemptError,
    CallResult,
    Held,
    NotBegun,
    Progress,
    Rejected,
    Throttled,
)
from outrider.domain.evidence import Evidence, LookedUp, Receipts
from outrider.domain.ids import IdempotencyKey
from outrider.domain.reference_memory import memory_of
from outrider.domain.states import Channel
from outrider.domain.submission import GatewayType
from outrider.gateways.content import refuse_enclosures
from outrider.gateways.family import Family, Target
from outrider.gateways.http import ReceivedAnswer, base_url, is_about_certificates, words_of
from outrider.gateways.http_check import reached, unanswered
from outrider.gateways.json_receipts import receipt_reader
from outrider.gateways.look_ups import declared_look_up, recipe_of
from outrider.limits.gateways import HTTP_CONCURRENCY, HTTP_WINDOW_ITEMS
from outrider.ports.gateway import LookUpQuestion, Reservation
from outrider.ports.target_check import CheckFinding
from outrider.settings import TargetSettings

if TYPE_CHECKING:
    from outrider.gateways.http_client import HttpClient

DEFAULTS = TargetSettings()
THROTTLED = frozenset({429, 503})
REFUSES_US = frozenset({401, 403})
REASON = re.compile(r"[\x21-\x7e]{1,64}")
"""Contract 001 names some reasons and allows others: a gateway's own keep their names."""

REFERENCE_FIELD = "referenceId"

EVIDENCE = Evidence(receipts=Receipts("`referenceId`"), declared_look_up=True)
"""Any server may speak this protocol: each target declares its memory and its look-up."""

SMS = GatewayType(
    "sms",
    Channel.SMS,
    frozenset(
        {
            "invalid_request",
            DUPLICATE_REFERENCE,
            "invalid_recipient",
            "invalid_message",
            "provider_failure",
        }
    ),
    remembers=None,
    evidence=EVIDENCE,
    reference_field=REFERENCE_FIELD,
    body_field="message",
)
PUSH = GatewayType(
    "push",
    Channel.PUSH,
    frozenset({"invalid_request", DUPLICATE_REFERENCE, "provider_failure", "unregistered_token"}),
    remembers=None,
    evidence=EVIDENCE,
    reference_field=REFERENCE_FIELD,
)

Document = dict[str, Any]


def direct_document(
    reference: IdempotencyKey, payload: Mapping[str, Any], text: str | None
) -> Document | msgspec.Raw:
    """A direct intent's payload, byte for byte, after the reference."""
    if text is None or REFERENCE_FIELD in payload:
        # It was submitted before its own reference was refused; ours takes precedence.
        return {**payload, REFERENCE_FIELD: reference}
    fields = text.strip().removeprefix("{")
    separator = "," if payload else ""
    return msgspec.Raw(f'{{"{REFERENCE_FIELD}":"{reference}"{separator}{fields}'.encode())


def sms_document(reservation: Reservation) -> Document:
    return {
        "referenceId": reservation.reference,
        "to": reservation.address,
        "message": reservation.body,
    }


def push_document(reservation: Reservation) -> Document:
    return {
        "referenceId": reservation.reference,
        "token": reservation.address,
        "title": reservation.subject or "",
        "body": reservation.body,
    }


class _AnswerDocument(msgspec.Struct, rename="camel"):
    status: str | None = None
    reason: str | None = None
    reference_id: str | None = None
    gateway_message_id: str | int | None = None


_decoder = msgspec.json.Decoder(_AnswerDocument)


class JsonGateway:
    """One family at one URL. The client is shared, so its creator closes it."""

    def __init__(
        self,
        gateway_type: GatewayType,
        document: Callable[[Reservation], Document],
        gateway_url: str,
        client: "HttpClient",
        settings: TargetSettings,
    ) -> None:
        self.type = gateway_type
        self.concurrency = settings.concurrency or HTTP_CONCURRENCY
        self.memory = memory_of(gateway_type.remembers, settings.reference_memory)
        # A crash puts nothing in doubt where references are remembered, so windows are large there.
        self.window_items = max(HTTP_WINDOW_ITEMS if self.memory.is_memory else 1, self.concurrency)
        self._timeout_seconds = settings.timeout_seconds
        self._document = document
        self._url = base_url(gateway_url) / gateway_type.name / "send"
        self._client = client
        self._record = declared_look_up(client, settings)
        self.looks_up = None if self._record is None else self._record.evidence
        self.records = "" if self._record is None else self._record.records
        self.recipe = recipe_of(gateway_url)

    async def call(self, reservation: Reservation) -> CallResult:
        if reservation.enclosures:
            return refuse_enclosures(self.type)
        payload = reservation.payload
        document = (
            self._document(reservation)
            if payload is None
            else direct_document(reservation.reference, payload, reservation.payload_text)
        )
        answer = await self._client.post_json(
            self._url, document, timeout_seconds=self._timeout_seconds, begin=reservation.begin
        )
        if isinstance(answer, NotBegun):
            return answer
        if isinstance(answer, AttemptError):
            return _unanswered(answer)
        return interpret(reservation.reference, answer)

    async def look_up(
        self, questions: Sequence[LookUpQuestion]
    ) -> Mapping[IdempotencyKey, LookedUp]:
        return {} if self._record is None else await self._record.look_up(questions)

    async def trim(self, connections: int) -> None:
        pass

    async def close(self) -> None:
        pass

    async def check(self, seconds: float) -> CheckFinding | None:
        # The protocol has no call that is not a message, so plain HTTP is used.
        answer = await self._client.ask("OPTIONS", self._url, timeout_seconds=seconds)
        if isinstance(answer, AttemptError):
            return unanswered(self._url, answer)
        return reached(self._url, answer)


def sms_gateway(
    gateway_url: str, client: "HttpClient", settings: TargetSettings = DEFAULTS
) -> JsonGateway:
    return JsonGateway(SMS, sms_document, gateway_url, client, settings)


def push_gateway(
    gateway_url: str, client: "HttpClient", settings: TargetSettings = DEFAULTS
) -> JsonGateway:
    return JsonGateway(PUSH, push_document, gateway_url, client, settings)


def _make_sms(target: Target) -> JsonGateway:
    target.refuse_options_but(SMS.name, frozenset())
    return sms_gateway(target.url, target.client, target.settings)


def _make_push(target: Target) -> JsonGateway:
    target.refuse_options_but(PUSH.name, frozenset())
    return push_gateway(target.url, target.client, target.settings)


SMS_FAMILY = Family(SMS, _make_sms, receipt_reader)
PUSH_FAMILY = Family(PUSH, _make_push, receipt_reader)


def interpret(reference: IdempotencyKey, answer: ReceivedAnswer) -> CallResult:
    """What an HTTP answer means in this family's protocol."""
    status = answer.status
    if status in THROTTLED:
        return Throttled(words_of(answer, quoted=False), answer.retry_after_seconds)
    try:
        document = _decoder.decode(answer.body)
    except (msgspec.DecodeError, RecursionError):
        document = _AnswerDocument()
    success, refusal = 200 <= status < 300, 400 <= status < 500
    is_anothers = document.reference_id is not None and document.reference_id != reference
    if document.status == "accepted" and success and not is_anothers:
        message_id = document.gateway_message_id
        return Accepted(None if message_id is None else str(message_id))
    words = words_of(answer, quoted=True)
    if is_anothers:
        # An answer to another request says nothing about this one.
        return _nonsense(status, f"the answer carries another referenceId; {words}")
    if document.status == "rejected" and (success or refusal):
        return _rejected(document.reason, answer, words)
    if status in REFUSES_US:
        # Every tenant sees why a door is closed, so no message content is quoted there.
        return Held(UNAUTHORIZED, words_of(answer, quoted=False))
    return _nonsense(status, words)


def _rejected(reason: str | None, answer: ReceivedAnswer, words: str) -> Rejected | AttemptError:
    if reason is None or not REASON.fullmatch(reason):
        # Whatever it means, the message was not taken.
        return AttemptError(Progress.ANSWERED, INVALID_ANSWER, words)
    return Rejected(reason, words, answer.retry_after_seconds)


def _nonsense(http_status: int, words: str) -> AttemptError:
    """It is not the gateway's protocol, so it says nothing about the message."""
    code = INVALID_ANSWER if 200 <= http_status < 300 else f"http_{http_status}"
    return AttemptError(Progress.SENT_NO_ANSWER, code, words)


def _unanswered(error: AttemptError) -> CallResult:
    if is_about_certificates(error):
        return Held(error.code, error.detail)
    if error.progress is Progress.ANSWERED:
        # Bytes came back, but nothing that says what happened to the message.
        return AttemptError(Progress.SENT_NO_ANSWER, error.code, error.detail)
    return error
