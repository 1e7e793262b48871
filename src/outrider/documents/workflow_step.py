"""One step of a workflow in user input, validated under the channel of its rule."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
)

from outrider.documents import Document, Problems, json_path, key_field
from outrider.documents.campaign_messages import CHANNELS_WITH_SUBJECT
from outrider.documents.templates import Body, Subject, TemplateCheck, TemplateContext
from outrider.domain.addresses import normalise_email, normalise_phone
from outrider.domain.purposes import checked_topic
from outrider.domain.recipients import AddressKind, address_kind
from outrider.domain.states import Channel
from outrider.domain.workflows import Delay, IfPast, RecipientConfig, Relative, Timing
from outrider.domain.written_workflows import SECONDS_PER_HOUR, SECONDS_PER_MINUTE, WrittenStep
from outrider.limits.campaigns import NAME_MAX_CHARACTERS
from outrider.limits.workflows import (
    CUSTOM_RECIPIENTS_MAX,
    DELAY_MAX_SECONDS,
    MOMENT_PATH_MAX_CHARACTERS,
    STEP_ORDER_MAX,
)

DELAY_MAX_MINUTES = DELAY_MAX_SECONDS // SECONDS_PER_MINUTE
DELAY_MAX_HOURS = DELAY_MAX_SECONDS // SECONDS_PER_HOUR
DELAYS = ("delaySeconds", "delayMinutes", "delayHours", "relativeTo")
LATER = ("delay_seconds", "delay_minutes", "delay_hours", "relative_to")
OFFSETS = ("offsetSeconds", "offsetMinutes", "offsetHours")
"""Of each group, at most one may be given."""

MOMENT_PATH = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")

Location = Sequence[str | int]


def read_step(
    given: object,
    check_template: TemplateCheck,
    rule_channel: Channel | None,
    problems: Problems,
    at: Location = (),
) -> WrittenStep | None:
    """The step, or None with its problems noted. An unknown rule has no channel."""
    _note_more_than_one(given, DELAYS, problems, at)
    if isinstance(given, Mapping):
        _note_more_than_one(given.get("relativeTo"), OFFSETS, problems, (*at, "relativeTo"))
    try:
        step = _Step.model_validate(given, context=_Context(check_template, rule_channel))
    except ValidationError as error:
        problems.add_all(error, at)
        return None
    channel = step.channel or rule_channel
    return step.written(channel) if channel else None


def _note_more_than_one(
    given: object, names: Sequence[str], problems: Problems, at: Location
) -> None:
    if not isinstance(given, Mapping):
        return
    first, *more = [name for name in names if given.get(name) is not None] or [""]
    for name in more:
        problems.add(json_path((*at, name)), f"cannot be combined with {first}")


@dataclass(frozen=True, slots=True)
class _Context(TemplateContext):
    rule_channel: Channel | None

    @classmethod
    def of(cls, info: ValidationInfo) -> "_Context":
        assert isinstance(info.context, cls)
        return info.context


def _moment_path(path: str) -> str:
    if len(path) > MOMENT_PATH_MAX_CHARACTERS or not MOMENT_PATH.fullmatch(path):
        raise ValueError("should be names separated by dots, such as appointment.startsAt")
    return path


def _few(given: Any) -> Any:
    """Checked before the addresses themselves: ten thousand bad addresses are one mistake."""
    if isinstance(given, list) and len(given) > CUSTOM_RECIPIENTS_MAX:
        raise ValueError(f"has {len(given)} addresses; the maximum is {CUSTOM_RECIPIENTS_MAX}")
    return given


def _normal(normalise: Callable[[str], str | None], wrong: str) -> Callable[[str], str]:
    def normal(given: str) -> str:
        address = normalise(given)
        if address is None:
            raise ValueError(wrong)
        return address

    return normal


_phone = _normal(normalise_phone, "is not a phone number with country code, such as +447700900123")
_email = _normal(normalise_email, "is not an email address")

Phones = Annotated[list[Annotated[str, AfterValidator(_phone)]], BeforeValidator(_few)]
Emails = Annotated[list[Annotated[str, AfterValidator(_email)]], BeforeValidator(_few)]
Target = Annotated[
    str, Field(min_length=1, max_length=NAME_MAX_CHARACTERS), AfterValidator(key_field)
]


class _Relative(Document):
    path: Annotated[str, AfterValidator(_moment_path)]
    offset_seconds: Annotated[float, Field(ge=-DELAY_MAX_SECONDS, le=DELAY_MAX_SECONDS)] = 0
    offset_minutes: Annotated[float, Field(ge=-DELAY_MAX_MINUTES, le=DELAY_MAX_MINUTES)] = 0
    offset_hours: Annotated[float, Field(ge=-DELAY_MAX_HOURS, le=DELAY_MAX_HOURS)] = 0
    if_past: Annotated[IfPast, Field(strict=False)] = IfPast.SKIP

    def timing(self) -> Relative:
        offset = _seconds(self.offset_seconds, self.offset_minutes, self.offset_hours)
        return Relative(self.path, offset, self.if_past)


class _Recipients(Document):
    include_lead_contact: bool = False
    include_partner: bool = False
    include_agent: bool = False
    custom_phones: Phones = Field(default=[])
    custom_emails: Emails = Field(default=[])

    def config(self) -> RecipientConfig:
        return RecipientConfig(
            self.include_lead_contact,
            self.include_partner,
            self.include_agent,
            tuple(self.custom_phones),
            tuple(self.custom_emails),
        )


class _Step(Document):
    """Fields that depend on others come after them and are checked even if absent."""

    step_order: Annotated[int, Field(ge=0, le=STEP_ORDER_MAX)]
    enabled: bool = True
    channel: Annotated[Channel | None, Field(strict=False)] = None
    submission_target: Target | None = None
    subject: Annotated[Subject | None, Field(validate_default=True)] = None
    body: Body
    delay_seconds: Annotated[float, Field(ge=0, le=DELAY_MAX_SECONDS)] | None = None
    delay_minutes: Annotated[float, Field(ge=0, le=DELAY_MAX_MINUTES)] | None = None
    delay_hours: Annotated[float, Field(ge=0, le=DELAY_MAX_HOURS)] | None = None
    relative_to: _Relative | None = None
    recipient_config: _Recipients = Field(default=_Recipients())
    digest_minutes: Annotated[int, Field(ge=1, le=DELAY_MAX_MINUTES)] | None = None
    topic: Annotated[str, AfterValidator(checked_topic)] | None = None

    @field_validator("subject")
    @classmethod
    def _subject_fits_channel(cls, subject: str | None, info: ValidationInfo) -> str | None:
        if "channel" not in info.data:
            return subject
        channel = info.data["channel"] or _Context.of(info).rule_channel
        if subject is None and channel is Channel.EMAIL:
            raise ValueError("is required where the channel is email")
        if subject is not None and channel is not None and channel not in CHANNELS_WITH_SUBJECT:
            raise ValueError("is only allowed for the channels email and push")
        return subject

    @field_validator("digest_minutes")
    @classmethod
    def _digest_fits(cls, minutes: int | None, info: ValidationInfo) -> int | None:
        if minutes is None:
            return None
        if any(info.data.get(name) for name in LATER):
            raise ValueError("cannot be combined with a delay or relativeTo")
        channel = info.data.get("channel") or _Context.of(info).rule_channel
        if channel is not None and address_kind(channel) is AddressKind.NONE:
            raise ValueError(
                f"requires recipients, and the channel {channel.value} has no addresses"
            )
        return minutes

    def written(self, channel: Channel) -> WrittenStep:
        digest = self.digest_minutes
        return WrittenStep(
            self.step_order,
            channel,
            self.body,
            self.enabled,
            self.subject,
            self.submission_target,
            self._timing(),
            self.recipient_config.config(),
            None if digest is None else digest * SECONDS_PER_MINUTE,
            self.topic,
        )

    def _timing(self) -> Timing:
        if self.relative_to is not None:
            return self.relative_to.timing()
        return Delay(_seconds(self.delay_seconds, self.delay_minutes, self.delay_hours))


def _seconds(seconds: float | None, minutes: float | None, hours: float | None) -> float:
    return (seconds or 0) + SECONDS_PER_MINUTE * (minutes or 0) + SECONDS_PER_HOUR * (hours or 0)
