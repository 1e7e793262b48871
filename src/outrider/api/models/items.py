"""Ledger items on the wire: with their attempts, in doubt, or as intents."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from outrider.api.models.common import Answer, Success, Text, TopicName
from outrider.documents import Document
from outrider.domain.call_results import Progress
from outrider.domain.callback_urls import URL_MAX_CHARACTERS
from outrider.domain.contracts import PolicyName
from outrider.domain.receipts import Delivery, DeliveryState
from outrider.domain.states import Channel, IntentStatus, ItemStatus
from outrider.domain.submission import ExhaustedReason
from outrider.kernel.transactions.doubts import Doubt, DoubtVerdict
from outrider.kernel.transactions.intent_lists import IntentLine
from outrider.kernel.transactions.ledger_items import Attempt, Item, LateAcceptance
from outrider.limits.campaigns import (
    INTENT_BATCH_ITEMS,
    INTENT_ID_MAX_CHARACTERS,
    NAME_MAX_CHARACTERS,
)

EVIDENCE_MAX_CHARACTERS = 4_000
RESOLVED_IDS_MAX = 1_000
ID_CHARACTERS = 36


class DeliveryAnswer(Answer):
    """What became of a message that was sent, as far as its provider's receipts say."""

    state: DeliveryState
    permanent: bool = Field(description="Of a bounce or failure: trying again is pointless.")
    reason: str
    at: datetime | None = Field(description="When, by the provider's clock where it says so.")

    @classmethod
    def of(cls, delivery: Delivery) -> "DeliveryAnswer":
        return cls(
            state=delivery.state,
            permanent=delivery.permanent,
            reason=delivery.reason,
            at=delivery.at,
        )


class ItemLine(Answer):
    outbox_id: str
    run_id: str | None
    job_id: str | None
    recipient_id: str
    address: str | None
    channel: Channel
    provider: str
    submission_target: str
    status: ItemStatus
    intent_status: IntentStatus | None
    exhausted_reason: ExhaustedReason | None
    reason: str | None
    error: str | None
    attempts_made: int
    in_doubt: bool
    doubted_at: datetime | None
    next_attempt_at: datetime | None
    provider_message_id: str | None
    reference: str = Field(description="The reference sent to the provider; look it up there.")
    event_id: str | None = Field(description="The domain event that caused it.")
    waits_for: str | None = Field(description="Why `nextAttemptAt` is delayed.")
    created_at: datetime
    updated_at: datetime
    delivery: DeliveryAnswer

    @classmethod
    def of(cls, item: Item) -> "ItemLine":
        return cls(**item_fields(item))


class AttemptAnswer(Answer):
    number: int
    opened_at: datetime
    closed_at: datetime | None
    progress: Progress | None
    outcome: str | None
    reason: str | None
    error: str | None
    provider_message_id: str | None
    repeat: int = Field(
        description="Which repeat of the attempt's call it was, after its worker was lost; 0 is the"
        " call itself. Contracts count attempts, not repeats."
    )

    @classmethod
    def of(cls, attempt: Attempt) -> "AttemptAnswer":
        return cls(**attempt._asdict())


class LateAcceptanceAnswer(Answer):
    attempt: int
    answered_at: datetime
    provider_message_id: str | None
    recorded_at: datetime

    @classmethod
    def of(cls, late: LateAcceptance) -> "LateAcceptanceAnswer":
        return cls(**late._asdict())


class ItemAnswer(ItemLine):
    subject: str | None
    attempts: list[AttemptAnswer]
    late_acceptances: list[LateAcceptanceAnswer] = Field(
        description="Acceptances that arrived after the item had another outcome."
    )

    @classmethod
    def whole(cls, item: Item, attempts: list[Attempt], late: list[LateAcceptance]) -> "ItemAnswer":
        return cls(
            **item_fields(item),
            subject=item.subject,
            attempts=[AttemptAnswer.of(attempt) for attempt in attempts],
            late_acceptances=[LateAcceptanceAnswer.of(each) for each in late],
        )


class DoubtAnswer(Answer):
    outbox_id: str
    run_id: str | None
    campaign_id: str | None
    recipient_id: str
    address: str | None
    channel: Channel
    provider: str
    reference: str
    attempts: int
    progress: Progress | None = Field(
        description="How far the last attempt got, as far as is known."
    )
    reason: str | None
    error: str | None
    opened_at: datetime | None
    doubted_at: datetime
    is_exhausted: bool = Field(
        description="Its contract allows no more attempts, so `resubmit` is refused."
    )

    @classmethod
    def of(cls, doubt: Doubt) -> "DoubtAnswer":
        return cls(
            outbox_id=doubt.id,
            run_id=doubt.run_id,
            campaign_id=doubt.campaign_id,
            recipient_id=doubt.recipient_id,
            address=doubt.address,
            channel=Channel(doubt.channel),
            provider=doubt.provider,
            reference=doubt.reference,
            attempts=doubt.attempts,
            progress=Progress(doubt.progress) if doubt.progress else None,
            reason=doubt.reason,
            error=doubt.error,
            opened_at=doubt.opened_at,
            doubted_at=doubt.doubted_at,
            is_exhausted=bool(doubt.is_exhausted),
        )


class VerdictBody(Document):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"verdict": "sent", "evidence": "found in the provider's export"}]
        }
    )

    verdict: Annotated[DoubtVerdict, Field(strict=False)]
    evidence: Annotated[
        Text,
        Field(
            min_length=1,
            max_length=EVIDENCE_MAX_CHARACTERS,
            pattern=r"\S",
            description="How you know. Kept permanently in the audit log.",
        ),
    ]
    force: bool = Field(
        default=False,
        description="Resolve it even if the worker that made the call may still be running.",
    )


class VerdictsBody(VerdictBody):
    """One verdict on many: those named, or all of a run or campaign, or all of the workspace."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "runId": "019f0000-0000-7000-8000-000000000000",
                    "verdict": "failed",
                    "evidence": "the provider says that nothing arrived",
                    "confirm": True,
                }
            ]
        }
    )

    run_id: str | None = None
    campaign_id: str | None = None
    ids: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=ID_CHARACTERS)]] | None,
        Field(min_length=1, max_length=RESOLVED_IDS_MAX),
    ] = None
    confirm: bool = Field(default=False, description="Without it, matching items are only counted.")


class AllResolved(Success):
    matching: int = Field(description="How many items matched before.")
    resolved: int
    left: int = Field(
        description="How many items still match; repeat the request if this is not 0."
    )
    confirmed: bool


class Resolved(Success):
    outbox_id: str
    verdict: DoubtVerdict


class IntentBody(Document):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "intentId": "order-4711-shipped",
                    "submissionTarget": "sms.realtime",
                    "payload": {"to": "+447700900123", "message": "On its way"},
                }
            ]
        }
    )

    intent_id: Annotated[
        str,
        Field(
            min_length=1, max_length=INTENT_ID_MAX_CHARACTERS, description="Repeating it is safe."
        ),
    ]
    submission_target: Annotated[str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS)]
    payload: dict[str, Any]
    topic: TopicName | None = Field(
        default=None, description="What its recipient can opt out of without leaving the channel."
    )
    transactional: bool = Field(
        default=False, description="Held back only by opt-outs that include transactional messages."
    )
    callback_url: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=URL_MAX_CHARACTERS,
            description="Receives the outcome and later receipts, as CloudEvents signed per"
            " Standard Webhooks. Must be https and a public address, unless the server allows"
            " others. A repeat with another URL is the same intent and keeps the first.",
            examples=["https://shop.example.com/outrider"],
        ),
    ] = None


class IntentBatchBody(Document):
    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "intents": [
                        {
                            "intentId": "order-4711-shipped",
                            "submissionTarget": "sms.realtime",
                            "payload": {"to": "+447700900123", "message": "On its way"},
                        }
                    ]
                }
            ]
        }
    )

    intents: Annotated[
        list[Any],
        Field(
            min_length=1,
            max_length=INTENT_BATCH_ITEMS,
            description="Each as in the body of `POST /intents`. An invalid one gets its own"
            " error and does not affect the others.",
        ),
    ]


class BatchError(Answer):
    model_config = ConfigDict(extra="allow")

    code: str
    message: str


class IntentBatchItem(Answer):
    """What `POST /intents` would have answered."""

    status: int = Field(description="201 new, 200 already known, 400 or 409 refused.")
    intent_id: str | None = Field(description="Null if it could not be read.")
    outbox_id: str | None = None
    intent_status: IntentStatus | None = None
    error: BatchError | None = None


class IntentBatchAnswer(Answer):
    items: list[IntentBatchItem] = Field(description="In the order of the request.")


class IntentLineAnswer(Answer):
    intent_id: str
    outbox_id: str
    submission_target: str
    topic: str | None
    transactional: bool
    status: IntentStatus
    final_outcome: str | None
    exhausted_reason: ExhaustedReason | None
    in_doubt: bool
    reason: str | None
    attempts_made: int
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, line: IntentLine) -> "IntentLineAnswer":
        return cls(
            intent_id=line.intent_id,
            outbox_id=line.outbox_id,
            submission_target=line.submission_target,
            topic=line.topic,
            transactional=bool(line.transactional),
            status=IntentStatus(line.status),
            final_outcome=line.final_outcome,
            exhausted_reason=ExhaustedReason(line.exhausted_reason)
            if line.exhausted_reason
            else None,
            in_doubt=line.doubted_at is not None,
            reason=line.reason,
            attempts_made=line.attempts,
            created_at=line.created_at,
            updated_at=line.updated_at,
        )


class CallbackSecretAnswer(Answer):
    secret: str = Field(description="`whsec_` and base64, as Standard Webhooks libraries take it.")


class IntentAttempt(Answer):
    number: int
    opened_at: datetime
    closed_at: datetime | None
    outcome: str | None
    reason: str | None = Field(
        description="The gateway's reason for not accepting it, or Outrider's."
    )
    error: str | None = Field(description="What the gateway said, in its own words.")
    progress: Progress | None


class IntentContract(Answer):
    """The terms that were in force when the intent was submitted, and that it keeps."""

    submission_target: str
    gateway_type: str
    gateway_url: str | None = Field(description="Null for other workspaces than the default one.")
    mode: str
    policy: PolicyName
    max_acceptance_seconds: float | None = None
    max_attempts: int | None = None
    terminal_outcomes: list[str]


class IntentAnswer(Answer):
    """Contract 001's intent, in its current state."""

    intent_id: str
    outbox_id: str = Field(description="Its ledger item.")
    submission_target: str
    payload: dict[str, Any]
    topic: str | None
    transactional: bool
    callback_url: str | None
    status: IntentStatus
    final_outcome: str | None
    exhausted_reason: ExhaustedReason | None
    in_doubt: bool
    contract: IntentContract
    reason: str | None = Field(
        description="The last call, whether or not it counted as an attempt."
    )
    error: str | None = Field(description="What the gateway said then, in its own words.")
    waits_for: str | None = Field(description="For waiting items: the state of the target.")
    created_at: datetime
    delivery: DeliveryAnswer
    attempts: list[IntentAttempt]


def item_fields(item: Item) -> dict[str, Any]:
    return {
        "outbox_id": item.id,
        "run_id": item.run_id,
        "job_id": item.job_id,
        "recipient_id": item.recipient_id,
        "address": item.address,
        "channel": Channel(item.channel),
        "provider": item.provider,
        "submission_target": item.submission_target,
        "status": ItemStatus(item.status),
        "intent_status": item.intent_status,
        "exhausted_reason": item.exhausted_reason,
        "reason": item.reason,
        "error": item.error,
        "attempts_made": item.attempts,
        "in_doubt": item.doubted_at is not None,
        "doubted_at": item.doubted_at,
        "next_attempt_at": item.next_attempt_at,
        "provider_message_id": item.provider_message_id,
        "reference": item.reference,
        "event_id": item.event_id,
        "waits_for": item.waits_for,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "delivery": DeliveryAnswer.of(item.delivery),
    }
