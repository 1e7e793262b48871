"""Campaigns on the wire: created, listed, shown, and given an audience."""

from datetime import datetime
from typing import Any

from pydantic import Field

from outrider.api.models.common import AccountingAnswer, Answer, Success
from outrider.api.models.rollouts import PlannedStepAnswer
from outrider.api.models.variants import (
    VariantAnswer,
    WinnerRuleAnswer,
    variants_document,
    winner_document,
)
from outrider.domain.campaign_states import CampaignState
from outrider.domain.campaigns import LAUNCH, RATED_FROM_MESSAGES
from outrider.domain.purposes import TOPIC_PATTERN
from outrider.domain.states import Channel, PhaseState, RunStatus
from outrider.kernel.transactions.overview import CampaignOverview, PhaseLine
from outrider.limits.campaigns import (
    NAME_MAX_CHARACTERS,
    RATED_FROM_MAX_MESSAGES,
    RECIPIENT_ID_MAX_CHARACTERS,
    ROLLOUT_HOLD_MAX_MINUTES,
    ROLLOUT_STEPS_MAX,
    STEP_ATTEMPTS_MAX,
    STEP_RETRY_DELAY_MAX_SECONDS,
)

EXAMPLE = {
    "name": "Spring offer",
    "phases": ["audience_import", "launch", "report"],
    "audience": {
        "recipients": [
            {
                "id": "lead-1",
                "email": "ada@example.test",
                "phone": "+447700900123",
                "attributes": {"firstName": "Ada"},
            }
        ]
    },
    "messages": [
        {
            "id": "offer",
            "channel": "sms",
            "submissionTarget": "sms.realtime",
            "body": "Hi {{ firstName }}",
        }
    ],
    "batchSize": 500,
}


class CampaignCreated(Success):
    campaign_id: str
    name: str
    recipients: int
    phases: list[str]
    warnings: list[str] = Field(
        default=[],
        description="Template variables missing from the first recipients.",
    )


class PhaseStanding(Answer):
    phase: str
    state: PhaseState
    reason: str | None
    run_status: RunStatus | None
    scheduled_for: datetime | None

    @classmethod
    def of(cls, line: PhaseLine) -> "PhaseStanding":
        return cls(
            phase=line.phase,
            state=line.state,
            reason=line.reason,
            run_status=RunStatus(line.run_status) if line.run_status else None,
            scheduled_for=line.scheduled_for,
        )


class CampaignLine(Answer):
    campaign_id: str
    name: str
    recipients: int
    launch: PhaseState | None
    state: CampaignState = Field(
        description="Overall state; `ready` when some phases are completed and the next can start."
    )
    control_phase: str | None
    phases: list[PhaseStanding]
    phase: str | None = Field(
        description="The phase the figures are for: the control phase, else the launch, else"
        " the last."
    )
    run_id: str | None
    progress_percentage: float
    accounting: AccountingAnswer | None = Field(
        description="For a phase in progress, the latest reported progress, about a second old."
    )
    outcome: AccountingAnswer | None = Field(
        description="The same over all runs of a retried launch."
    )
    last_sequence: int
    created_at: datetime

    @classmethod
    def of(cls, campaign: CampaignOverview) -> "CampaignLine":
        states = {line.phase: line.state for line in campaign.phases}
        accounting = campaign.accounting
        return cls(
            campaign_id=campaign.id,
            name=campaign.name,
            recipients=campaign.audience_size,
            launch=states.get(LAUNCH),
            state=campaign.state,
            control_phase=campaign.control_phase,
            phases=[PhaseStanding.of(line) for line in campaign.phases],
            phase=campaign.shown.phase if campaign.shown else None,
            run_id=campaign.shown.run_id if campaign.shown else None,
            progress_percentage=campaign.progress_percentage,
            accounting=AccountingAnswer.of(accounting) if accounting else None,
            outcome=AccountingAnswer.of(campaign.outcome) if campaign.outcome else None,
            last_sequence=campaign.last_sequence,
            created_at=campaign.created_at,
        )


class MessageAnswer(Answer):
    id: str
    channel: Channel
    submission_target: str
    subject: str | None
    body: str
    script_version: str | None
    topic: str | None = Field(default=None, description="Null means that of the campaign.")
    transactional: bool | None = Field(default=None, description="Null means that of the campaign.")
    variants: list[VariantAnswer] = Field(
        default=[], description="Each recipient is sent one of these instead."
    )


class StepRetriesAnswer(Answer):
    max_attempts: int
    delay_seconds: int


class LocalLaunchAnswer(Answer):
    local: str
    fallback_zone: str


class PauseOnAnswer(Answer):
    bounce_rate: float | None = None
    complaint_rate: float | None = None
    failure_rate: float | None = None
    silence_rate: float | None = None
    minimum_messages: int = Field(
        default=RATED_FROM_MESSAGES, description="From how many messages on rates are compared."
    )


class CampaignAnswer(Answer):
    """The definition as it was written, without the audience, which may be large."""

    campaign_id: str
    name: str
    phases: list[str]
    messages: list[MessageAnswer]
    scheduled_for: datetime | None
    batch_size: int
    require_approval: bool
    topic: str | None = Field(
        default=None, description="What a recipient can opt out of without leaving the channel."
    )
    transactional: bool = Field(
        default=False, description="Blocked only by opt-outs that include transactional messages."
    )
    retry_policy: dict[str, StepRetriesAnswer] = Field(
        default={}, description="By phase: how often a job is retried after it has died."
    )
    local_launch: LocalLaunchAnswer | None = Field(
        default=None,
        description="For a launch at each recipient's local time; `scheduledFor` is then when it"
        " begins anywhere.",
    )
    pause_on: PauseOnAnswer | None = Field(
        default=None, description="Shares of the messages; with a higher rate it is paused."
    )
    rollout: list[PlannedStepAnswer] = Field(
        default=[], description="The steps of the launch; empty if everybody is sent to at once."
    )
    winner: WinnerRuleAnswer | None = Field(
        default=None, description="Who chooses the variant of the rollout's last step."
    )
    recipients: int
    last_sequence: int
    created_at: datetime


class AudienceAdded(Success):
    campaign_id: str
    recipients: int
    staged: bool = Field(description="True if they wait for the campaign's audience_import.")


def campaign_document() -> dict[str, Any]:
    """The format of a campaign, for the OpenAPI document; `outrider.documents` reads it."""
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    recipient = {
        "type": "object",
        "required": ["id"],
        "additionalProperties": False,
        "properties": {
            "id": {**text, "maxLength": RECIPIENT_ID_MAX_CHARACTERS},
            "email": {"type": ["string", "null"]},
            "phone": {"type": ["string", "null"]},
            "pushToken": {"type": ["string", "null"]},
            "attributes": {"type": ["object", "null"]},
            "message": {"type": ["string", "null"]},
        },
    }
    message = {
        "type": "object",
        "required": ["id", "channel", "submissionTarget", "body"],
        "additionalProperties": False,
        "properties": {
            "id": {**text, "maxLength": NAME_MAX_CHARACTERS},
            "channel": {"enum": [each.value for each in Channel]},
            "submissionTarget": {**text, "maxLength": NAME_MAX_CHARACTERS},
            "subject": {"type": ["string", "null"]},
            "body": text,
            "scriptVersion": {"type": ["string", "null"]},
            "topic": {
                "type": ["string", "null"],
                "pattern": TOPIC_PATTERN,
                "description": "Overrides that of the campaign.",
            },
            "transactional": {
                "type": ["boolean", "null"],
                "description": "Overrides that of the campaign.",
            },
            "variants": variants_document(),
        },
    }
    return {
        "type": "object",
        "required": ["name", "messages"],
        "additionalProperties": False,
        "properties": {
            "name": {**text, "maxLength": NAME_MAX_CHARACTERS},
            "phases": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
            "audience": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"recipients": {"type": "array", "items": recipient}},
            },
            "messages": {"type": "array", "minItems": 1, "items": message},
            "scheduledFor": {
                "anyOf": [
                    {"type": ["string", "null"], "format": "date-time"},
                    {
                        "type": "object",
                        "description": "Each recipient's own clock.",
                        "required": ["local"],
                        "additionalProperties": False,
                        "properties": {
                            "local": {
                                "type": "string",
                                "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?$",
                            },
                            "fallbackZone": {"type": "string"},
                        },
                        "examples": [
                            {"local": "2026-12-01T09:00", "fallbackZone": "Europe/London"}
                        ],
                    },
                ]
            },
            "batchSize": {"type": "integer", "minimum": 1},
            "requireApproval": {"type": "boolean"},
            "topic": {"type": ["string", "null"], "pattern": TOPIC_PATTERN},
            "transactional": {"type": "boolean", "default": False},
            "rollout": {
                "type": "array",
                "description": "Steps of the launch; each percent includes the steps before it.",
                "maxItems": ROLLOUT_STEPS_MAX,
                "items": {
                    "type": "object",
                    "required": ["percent"],
                    "additionalProperties": False,
                    "properties": {
                        "percent": {"type": "number", "exclusiveMinimum": 0, "maximum": 100},
                        "holdMinutes": {
                            "type": "number",
                            "minimum": 0,
                            "maximum": ROLLOUT_HOLD_MAX_MINUTES,
                        },
                    },
                },
                "examples": [[{"percent": 1, "holdMinutes": 10}, {"percent": 100}]],
            },
            "winner": winner_document(),
            "pauseOn": {
                "type": ["object", "null"],
                "description": "Shares of the messages; with a higher rate the launch is paused.",
                "additionalProperties": False,
                "properties": {
                    **{
                        name: {
                            "type": ["number", "null"],
                            "exclusiveMinimum": 0,
                            "exclusiveMaximum": 1,
                        }
                        for name in ("bounceRate", "complaintRate", "failureRate", "silenceRate")
                    },
                    "minimumMessages": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": RATED_FROM_MAX_MESSAGES,
                        "default": RATED_FROM_MESSAGES,
                        "description": "From how many messages on rates are compared; earlier only"
                        " if a rate is too high for the launch as a whole, however the rest of it"
                        " ends.",
                    },
                },
            },
            "retryPolicy": {
                "type": "object",
                "description": "By phase: how often a job is retried after it has died.",
                "additionalProperties": {
                    "type": "object",
                    "required": ["maxAttempts"],
                    "additionalProperties": False,
                    "properties": {
                        "maxAttempts": {
                            "type": "integer",
                            "minimum": 1,
                            "maximum": STEP_ATTEMPTS_MAX,
                        },
                        "delaySeconds": {
                            "type": "integer",
                            "minimum": 0,
                            "maximum": STEP_RETRY_DELAY_MAX_SECONDS,
                        },
                    },
                },
            },
        },
        "examples": [EXAMPLE],
    }
