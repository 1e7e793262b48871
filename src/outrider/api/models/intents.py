"""Intents on the wire: as submitted, one by one or in batches, listed, and in full."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from outrider.api.models.blockers import BlockerAnswer
from outrider.api.models.common import Answer, TopicName
from outrider.api.models.items import CONTRACT_ATTEMPT, ENGINE_ATTEMPT, DeliveryAnswer
from outrider.documents import Document
from outrider.domain.call_results import Progress
from outrider.domain.callback_urls import URL_MAX_CHARACTERS
from outrider.domain.contracts import PolicyName
from outrider.domain.states import IntentStatus
from outrider.domain.submission import ExhaustedReason
from outrider.kernel.transactions.intent_lists import IntentLine
from outrider.kernel.transactions.ledger_items import engine_attempt
from outrider.limits.campaigns import (
    INTENT_BATCH_ITEMS,
    INTENT_ID_MAX_CHARACTERS,
    NAME_MAX_CHARACTERS,
    TIME_ZONE_MAX_CHARACTERS,
)


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
        default=False, description="Blocked only by opt-outs that include transactional messages."
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
    time_zone: str | None = Field(
        default=None,
        max_length=TIME_ZONE_MAX_CHARACTERS,
        description="The recipient's time zone, which the hours of the workspace's policy follow."
        " Defaults to that of the phone number's prefix, then the workspace's.",
        examples=["Europe/Amsterdam"],
    )


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
    contract_attempt: int = CONTRACT_ATTEMPT
    engine_attempt: int = ENGINE_ATTEMPT
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
            contract_attempt=line.attempts,
            engine_attempt=engine_attempt(line.attempts, line.repeats),
            created_at=line.created_at,
            updated_at=line.updated_at,
        )


class CallbackSecretAnswer(Answer):
    secret: str = Field(description="`whsec_` and base64, as Standard Webhooks libraries take it.")


class IntentAttempt(Answer):
    number: int
    contract_attempt: int = Field(description="The same as `number`.")
    engine_attempt: int = Field(description="Which call of the attempt; 1 is the first.")
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
    time_zone: str | None = Field(description="The recipient's, as it was submitted.")
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
    resubmits: str | None = Field(
        description="The ended intent that this one sends after all, if it does."
    )
    resubmitted_as: str | None = Field(
        description="The intent that this one was resubmitted as, if it was."
    )
    blockers: list[BlockerAnswer] = Field(
        description="What a pending intent waits for, as `GET` says it; submitting one says"
        " nothing of it."
    )
    created_at: datetime
    delivery: DeliveryAnswer
    attempts: list[IntentAttempt]
