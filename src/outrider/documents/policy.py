"""A workspace's policy: JSON bytes go in, what its messages wait for comes out, or every problem.

Times are of the local day and `24:00` is its end; a span that ends before it begins crosses
midnight.
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator

from outrider.documents import Document, Problems, load_json
from outrider.documents.instants import known_zone
from outrider.documents.presets import presets
from outrider.domain.addressees import TIME_ZONE_MAX_CHARACTERS
from outrider.domain.purposes import checked_topic
from outrider.domain.screen_policies import (
    ALL_CHANNELS,
    DAYS,
    MINUTES_PER_DAY,
    TIME_ZONE_DEFAULT,
    Channels,
    FrequencyCap,
    QuietHours,
    ScreenPolicies,
    SendingWindow,
    WhenReached,
    minute_of_day,
)
from outrider.domain.states import Channel
from outrider.domain.workflow_retry import WorkflowRetry
from outrider.limits.workflows import (
    EXEMPT_TOPICS_MAX,
    FREQUENCY_HOURS_MAX,
    FREQUENCY_MESSAGES_MAX,
    POLICY_MAX_BYTES,
    SENDING_WINDOWS_MAX,
    WORKFLOW_ATTEMPTS_MAX,
    WORKFLOW_RETRY_FACTOR_MAX,
    WORKFLOW_WAIT_MAX_SECONDS,
)

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])\Z")


def parse_policy(raw: bytes) -> ScreenPolicies:
    """The policies, or InvalidInput with all problems."""
    problems = Problems("policy")
    if len(raw) > POLICY_MAX_BYTES:
        problems.add("", f"is larger than {POLICY_MAX_BYTES} bytes")
        raise problems.error()
    given = load_json(raw, problems)
    document = None
    try:
        document = _model(given).model_validate(given)
    except ValidationError as error:
        problems.add_all(error)
    policies = document.policies() if document is not None else ScreenPolicies()
    for channel in _never_open(policies):
        problems.add("", f"quiet hours and sending windows leave no time to send {channel.value}")
    if problems:
        raise problems.error()
    return policies


def _never_open(policies: ScreenPolicies) -> list[Channel]:
    """The channels on which nothing could ever go: their hours open at no minute of the week."""
    closed = []
    for channel in Channel:
        hours = policies.hours(channel)
        if hours and not any(
            all(each.allows(weekday, minute) for each in hours)
            for weekday in range(len(DAYS))
            for opens in hours
            for minute in opens.opening_minutes
        ):
            closed.append(channel)
    return closed


def _clock_time(text: str) -> str:
    if not _TIME.match(text):
        raise ValueError("should be a time such as 08:30")
    return text


def _end_of_span(text: str) -> str:
    return text if text == "24:00" else _clock_time(text)


def _known_day(name: str) -> str:
    if name not in DAYS:
        raise ValueError(f"should be one of {', '.join(DAYS)}")
    return name


def _known_preset(name: str) -> str:
    if name not in presets():
        raise ValueError(f"is not a preset; there are {', '.join(presets())}")
    return name


def _each_once(given: list[Any]) -> list[Any]:
    if len(set(given)) != len(given):
        raise ValueError("should not contain duplicates")
    return given


ChannelNames = Annotated[
    list[Annotated[Channel, Field(strict=False)]], Field(min_length=1), AfterValidator(_each_once)
]


def _channels(given: list[Channel] | None) -> Channels:
    return ALL_CHANNELS if given is None else frozenset(given)


class _Span(Document):
    begins: Annotated[str, Field(alias="from"), AfterValidator(_clock_time)]
    ends: Annotated[str, Field(alias="to"), AfterValidator(_end_of_span)]
    channels: ChannelNames | None = None

    @field_validator("ends")
    @classmethod
    def _is_a_span(cls, ends: str, info: ValidationInfo) -> str:
        begins = info.data.get("begins")
        if begins is not None and minute_of_day(ends) % MINUTES_PER_DAY == minute_of_day(begins):
            if (begins, ends) == ("00:00", "24:00"):
                return ends
            raise ValueError("should differ from 'from'; for a whole day use 00:00 to 24:00")
        return ends


class _QuietHours(_Span):
    def policy(self) -> QuietHours:
        return QuietHours(
            minute_of_day(self.begins), minute_of_day(self.ends), _channels(self.channels)
        )


class _SendingWindow(_Span):
    days: Annotated[
        list[Annotated[str, AfterValidator(_known_day)]],
        Field(default_factory=lambda: list(DAYS), min_length=1),
        AfterValidator(_each_once),
    ]

    def policy(self) -> SendingWindow:
        return SendingWindow(
            minute_of_day(self.begins),
            minute_of_day(self.ends),
            frozenset(DAYS.index(day) for day in self.days),
            _channels(self.channels),
        )


class _FrequencyCap(Document):
    messages: Annotated[int, Field(ge=1, le=FREQUENCY_MESSAGES_MAX)]
    per_hours: Annotated[int, Field(ge=1, le=FREQUENCY_HOURS_MAX)]
    when_reached: Annotated[WhenReached, Field(strict=False)] = WhenReached.WAIT
    channels: ChannelNames | None = None

    def policy(self) -> FrequencyCap:
        return FrequencyCap(
            self.messages, self.per_hours, self.when_reached, _channels(self.channels)
        )


Wait = Annotated[float, Field(gt=0, le=WORKFLOW_WAIT_MAX_SECONDS)]


class _Retry(Document):
    attempts: Annotated[int, Field(ge=1, le=WORKFLOW_ATTEMPTS_MAX)] = WorkflowRetry.attempts
    first_seconds: Wait = WorkflowRetry.first_seconds
    factor: Annotated[float, Field(ge=1, le=WORKFLOW_RETRY_FACTOR_MAX)] = WorkflowRetry.factor
    cap_seconds: Annotated[Wait, Field(validate_default=True)] = WorkflowRetry.cap_seconds
    summary: str | None = None
    """Fields that answers add to what was written: a client may send an answer back unchanged."""

    @field_validator("cap_seconds")
    @classmethod
    def _is_no_less_than_the_first(cls, cap: float, info: ValidationInfo) -> float:
        first = info.data.get("first_seconds")
        if first is not None and cap < first:
            raise ValueError("should be at least firstSeconds")
        return cap

    def policy(self) -> WorkflowRetry:
        return WorkflowRetry(self.attempts, self.first_seconds, self.factor, self.cap_seconds)


class _Policy(Document):
    time_zone: Annotated[
        str, Field(min_length=1, max_length=TIME_ZONE_MAX_CHARACTERS), AfterValidator(known_zone)
    ] = TIME_ZONE_DEFAULT
    quiet_hours: _QuietHours | None = None
    sending_window: _SendingWindow | None = None
    frequency_cap: _FrequencyCap | None = None
    retry: _Retry | None = None
    presets: (
        Annotated[list[Annotated[str, AfterValidator(_known_preset)]], AfterValidator(_each_once)]
        | None
    ) = None
    exempt: (
        Annotated[
            list[Annotated[str, AfterValidator(checked_topic)]],
            Field(max_length=EXEMPT_TOPICS_MAX),
            AfterValidator(_each_once),
        ]
        | None
    ) = None

    def policies(self) -> ScreenPolicies:
        return ScreenPolicies(
            self.time_zone,
            self.quiet_hours.policy() if self.quiet_hours else None,
            self._windows(),
            self.frequency_cap.policy() if self.frequency_cap else None,
            self.retry.policy() if self.retry else WorkflowRetry(),
            tuple(presets()[name].preset for name in self.presets or ()),
            frozenset(self.exempt or ()),
        )

    def _windows(self) -> tuple[SendingWindow, ...]:
        return (self.sending_window.policy(),) if self.sending_window else ()


class _PolicyOfWindows(_Policy):
    """With a list of windows; a class of its own, so that each problem is shown in its place."""

    sending_window: Annotated[  # type: ignore[assignment]
        list[_SendingWindow], Field(min_length=1, max_length=SENDING_WINDOWS_MAX)
    ]

    def _windows(self) -> tuple[SendingWindow, ...]:
        return tuple(window.policy() for window in self.sending_window)


def _model(given: object) -> type[_Policy]:
    has_list = isinstance(given, dict) and isinstance(given.get("sendingWindow"), list)
    return _PolicyOfWindows if has_list else _Policy
