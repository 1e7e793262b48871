"""A workspace's policy on the wire, as it is written and as it is answered."""

from typing import Any, Literal

from pydantic import Field

from outrider.api.models.common import Answer, Success
from outrider.domain.addressees import TIME_ZONE_MAX_CHARACTERS
from outrider.domain.screen_policies import DAYS, ScreenPolicies, WhenReached
from outrider.domain.states import Channel
from outrider.settings import FREQUENCY_HOURS_MAX, FREQUENCY_MESSAGES_MAX

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


class QuietHoursAnswer(Answer):
    begins: str = Field(alias="from")
    ends: str = Field(alias="to")
    channels: list[Channel] | None = Field(default=None, description="Null: all of them.")


class SendingWindowAnswer(QuietHoursAnswer):
    days: list[Day]


class FrequencyCapAnswer(Answer):
    messages: int
    per_hours: int
    when_reached: WhenReached
    channels: list[Channel] | None = Field(default=None, description="Null: all of them.")


class PolicyAnswer(Answer):
    """What is null holds nothing back."""

    time_zone: str
    quiet_hours: QuietHoursAnswer | None = None
    sending_window: SendingWindowAnswer | None = None
    frequency_cap: FrequencyCapAnswer | None = None

    @classmethod
    def of(cls, policies: ScreenPolicies) -> "PolicyAnswer":
        return cls.model_validate(policies.as_document())


class PolicyPut(PolicyAnswer, Success):
    @classmethod
    def of(cls, policies: ScreenPolicies) -> "PolicyPut":
        return cls.model_validate(policies.as_document())


EXAMPLE: dict[str, Any] = {
    "timeZone": "Europe/Amsterdam",
    "quietHours": {"from": "21:00", "to": "08:00", "channels": ["sms", "voice"]},
    "sendingWindow": {"days": ["mon", "tue", "wed", "thu", "fri"], "from": "08:00", "to": "20:00"},
    "frequencyCap": {"messages": 3, "perHours": 24, "whenReached": "wait"},
}


def policy_document() -> dict[str, Any]:
    """How a policy is written."""
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
    zone = {"type": "string", "minLength": 1, "maxLength": TIME_ZONE_MAX_CHARACTERS}
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "timeZone": zone,
            "quietHours": _section(span, "from", "to"),
            "sendingWindow": _section({"days": days, **span}, "from", "to"),
            "frequencyCap": _section(cap, "messages", "perHours"),
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
