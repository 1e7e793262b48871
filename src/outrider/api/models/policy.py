"""A workspace's policy on the wire, in requests and responses."""

from typing import Any, Literal

from pydantic import Field

from outrider.api.models.common import Answer, Success
from outrider.documents.presets import presets
from outrider.domain.addressees import TIME_ZONE_MAX_CHARACTERS
from outrider.domain.purposes import TOPIC_PATTERN
from outrider.domain.screen_policies import DAYS, ScreenPolicies, WhenReached
from outrider.domain.states import Channel
from outrider.limits.workflows import (
    EXEMPT_TOPICS_MAX,
    FREQUENCY_HOURS_MAX,
    FREQUENCY_MESSAGES_MAX,
    SENDING_WINDOWS_MAX,
    WORKFLOW_ATTEMPTS_MAX,
    WORKFLOW_RETRY_FACTOR_MAX,
    WORKFLOW_WAIT_MAX_SECONDS,
)

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class QuietHoursAnswer(Answer):
    begins: str = Field(alias="from")
    ends: str = Field(alias="to")
    channels: list[Channel] | None = Field(default=None, description="Null means all of them.")


class SendingWindowAnswer(QuietHoursAnswer):
    days: list[Day]


class FrequencyCapAnswer(Answer):
    messages: int
    per_hours: int
    when_reached: WhenReached
    channels: list[Channel] | None = Field(default=None, description="Null means all of them.")


class RetryAnswer(Answer):
    """How often a message of a workflow is tried; its target's contract may end it earlier."""

    attempts: int
    first_seconds: float
    factor: float
    cap_seconds: float
    summary: str = Field(description="The same in words. Ignored in requests.")


class PolicyAnswer(Answer):
    """A null policy holds nothing back."""

    time_zone: str
    quiet_hours: QuietHoursAnswer | None = None
    sending_window: SendingWindowAnswer | list[SendingWindowAnswer] | None = Field(
        default=None, description="Several are alternatives: messages go within any of them."
    )
    frequency_cap: FrequencyCapAnswer | None = None
    retry: RetryAnswer
    presets: list[str] = Field(
        default=[], description="Sending hours of a law or a code of conduct, by name."
    )
    exempt: list[str] = Field(
        default=[],
        description="Topics whose transactional messages go at any hour and beyond the cap.",
    )

    @classmethod
    def of(cls, policies: ScreenPolicies) -> "PolicyAnswer":
        return cls.model_validate(_answered(policies))


class PolicyPut(PolicyAnswer, Success):
    @classmethod
    def of(cls, policies: ScreenPolicies) -> "PolicyPut":
        return cls.model_validate(_answered(policies))


def _answered(policies: ScreenPolicies) -> dict[str, Any]:
    retry = policies.retry
    document = {**retry.as_document(), "summary": retry.in_words()}
    return {**policies.as_document(), "retry": document}


EXAMPLE: dict[str, Any] = {
    "timeZone": "Europe/Amsterdam",
    "quietHours": {"from": "21:00", "to": "08:00", "channels": ["sms", "voice"]},
    "sendingWindow": {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "08:00", "to": "20:00"},
    "frequencyCap": {"messages": 3, "perHours": 24, "whenReached": "wait"},
    "retry": {"attempts": 6, "firstSeconds": 60, "factor": 2, "capSeconds": 3600},
}


def policy_document() -> dict[str, Any]:
    """The format of a policy."""
    channels = {
        "type": ["array", "null"],
        "items": {"enum": [channel.value for channel in Channel]},
        "minItems": 1,
        "uniqueItems": True,
    }
    span = {
        "from": {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
        "to": {"type": "string", "pattern": "^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)$"},
        "channels": channels,
    }
    days = {"type": "array", "items": {"enum": list(DAYS)}, "minItems": 1, "uniqueItems": True}
    cap = {
        "messages": {"type": "integer", "minimum": 1, "maximum": FREQUENCY_MESSAGES_MAX},
        "perHours": {"type": "integer", "minimum": 1, "maximum": FREQUENCY_HOURS_MAX},
        "whenReached": {"enum": [each.value for each in WhenReached]},
        "channels": channels,
    }
    wait = {"type": "number", "exclusiveMinimum": 0, "maximum": WORKFLOW_WAIT_MAX_SECONDS}
    retry = {
        "attempts": {"type": "integer", "minimum": 1, "maximum": WORKFLOW_ATTEMPTS_MAX},
        "firstSeconds": wait,
        "factor": {"type": "number", "minimum": 1, "maximum": WORKFLOW_RETRY_FACTOR_MAX},
        "capSeconds": wait,
        "summary": {"type": ["string", "null"]},
    }
    window = _section({"days": days, **span}, "from", "to")
    zone = {"type": "string", "minLength": 1, "maxLength": TIME_ZONE_MAX_CHARACTERS}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "timeZone": zone,
            "quietHours": _section(span, "from", "to"),
            "sendingWindow": {
                "anyOf": [
                    window,
                    {
                        "type": "array",
                        "items": {**window, "type": "object"},
                        "minItems": 1,
                        "maxItems": SENDING_WINDOWS_MAX,
                    },
                ]
            },
            "frequencyCap": _section(cap, "messages", "perHours"),
            "retry": _section(retry),
            "presets": {
                "type": ["array", "null"],
                "items": {"enum": list(presets())},
                "uniqueItems": True,
            },
            "exempt": {
                "type": ["array", "null"],
                "items": {"type": "string", "pattern": TOPIC_PATTERN},
                "maxItems": EXEMPT_TOPICS_MAX,
                "uniqueItems": True,
            },
        },
        "examples": [EXAMPLE],
    }


def _section(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": ["object", "null"],
        "required": list(required),
        "additionalProperties": False,
        "properties": properties,
    }
