"""Ledger items on the wire, with their attempts and delivery."""

from datetime import datetime
from typing import Any

from pydantic import Field

from outrider.api.models.common import Answer
from outrider.domain.call_results import Progress
from outrider.domain.receipts import Delivery, DeliveryState
from outrider.domain.states import Channel, IntentStatus, ItemStatus
from outrider.domain.submission import ExhaustedReason
from outrider.kernel.transactions.ledger_items import Attempt, Item, LateAcceptance

ID_CHARACTERS = 36


CONTRACT_ATTEMPT: Any = Field(
    description="The last attempt, as its contract counts; 0 before the first."
)
ENGINE_ATTEMPT: Any = Field(
    description="Which call of that attempt: it grows when a call whose worker was lost is repeated"
    " under the same reference. Contracts do not count it."
)


class DeliveryAnswer(Answer):
    """What its provider's receipts say about a message that was sent."""

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
    contract_attempt: int = CONTRACT_ATTEMPT
    engine_attempt: int = ENGINE_ATTEMPT
    in_doubt: bool
    doubted_at: datetime | None
    next_attempt_at: datetime | None
    provider_message_id: str | None
    reference: str = Field(description="The reference sent to the provider; look it up there.")
    event_id: str | None = Field(description="The domain event that caused it.")
    waits_for: str | None = Field(description="Why `nextAttemptAt` is delayed.")
    called_target: str | None = Field(
        default=None,
        description="If the last attempt went to a fallback: which; only where one item is read.",
    )
    variant: str | None = Field(default=None, description="Of its message, if that has variants.")
    created_at: datetime
    updated_at: datetime
    delivery: DeliveryAnswer

    @classmethod
    def of(cls, item: Item) -> "ItemLine":
        return cls(**item_fields(item))


class AttemptAnswer(Answer):
    number: int
    contract_attempt: int = Field(description="The same as `number`.")
    engine_attempt: int = Field(description="Which call of the attempt; 1 is the first.")
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
        return cls(
            **attempt._asdict(),
            contract_attempt=attempt.number,
            engine_attempt=attempt.engine_attempt,
        )


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
        "contract_attempt": item.attempts,
        "engine_attempt": item.engine_attempt,
        "in_doubt": item.doubted_at is not None,
        "doubted_at": item.doubted_at,
        "next_attempt_at": item.next_attempt_at,
        "provider_message_id": item.provider_message_id,
        "reference": item.reference,
        "event_id": item.event_id,
        "waits_for": item.waits_for,
        "called_target": item.called_target,
        "variant": item.variant,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
        "delivery": DeliveryAnswer.of(item.delivery),
    }
