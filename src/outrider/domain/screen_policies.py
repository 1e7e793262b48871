"""A workspace's policies: when messages may arrive, how often per address, and how often a
workflow's message is tried.

They hold for campaigns, intents and workflows alike. They delay messages that are due, never urgent
or exempt ones. A policy names its channels; without names it applies to all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from outrider.domain.purposes import Purpose
from outrider.domain.states import Channel
from outrider.domain.workflow_retry import USUAL_RETRY, WorkflowRetry, retry_from

MINUTES_PER_HOUR = 60
MINUTES_PER_DAY = 24 * MINUTES_PER_HOUR
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
"""In the order of `date.weekday()`."""

TIME_ZONE_DEFAULT = "UTC"

Channels = frozenset[Channel]
ALL_CHANNELS: Channels = frozenset(Channel)


class WaitsFor(StrEnum):
    """What an item waits for, as recorded in its ledger row."""

    QUIET_HOURS = "quiet_hours"
    SENDING_WINDOW = "sending_window"
    FREQUENCY_CAP = "frequency_cap"
    LOCAL_TIME = "local_time"
    WARM_UP = "warm_up"
    DOMAIN_LIMIT = "domain_limit"
    DOMAIN_THROTTLED = "domain_throttled"


SHAPED = frozenset({WaitsFor.WARM_UP, WaitsFor.DOMAIN_LIMIT, WaitsFor.DOMAIN_THROTTLED})
"""What is due to how a target is executed, and not to the workspace's policy."""


class WhenReached(StrEnum):
    """What happens to a message beyond the cap."""

    WAIT = "wait"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class QuietHours:
    """No messages between these two minutes of the local day."""

    from_minute: int
    to_minute: int
    channels: Channels = ALL_CHANNELS

    waits_for = WaitsFor.QUIET_HOURS

    @property
    def opening_minutes(self) -> Sequence[int]:
        return (self.to_minute % MINUTES_PER_DAY,)

    def allows(self, weekday: int, minute: int) -> bool:  # noqa: ARG002 - every day is alike
        if self.from_minute < self.to_minute:
            return not self.from_minute <= minute < self.to_minute
        return self.to_minute <= minute < self.from_minute


@dataclass(frozen=True, slots=True)
class SendingWindow:
    """Messages go only within it. A window across midnight belongs to the day on which it opens."""

    from_minute: int
    to_minute: int
    days: frozenset[int] = frozenset(range(len(DAYS)))
    channels: Channels = ALL_CHANNELS

    waits_for = WaitsFor.SENDING_WINDOW

    @property
    def opening_minutes(self) -> Sequence[int]:
        return (self.from_minute,)

    def allows(self, weekday: int, minute: int) -> bool:
        if self.from_minute < self.to_minute:
            return weekday in self.days and self.from_minute <= minute < self.to_minute
        day_before = (weekday - 1) % len(DAYS)
        return (weekday in self.days and minute >= self.from_minute) or (
            day_before in self.days and minute < self.to_minute
        )


@dataclass(frozen=True, slots=True)
class SendingWindows:
    """Several windows for the same channel: messages go within any of them."""

    windows: Sequence[SendingWindow]

    waits_for = WaitsFor.SENDING_WINDOW

    @property
    def opening_minutes(self) -> Sequence[int]:
        return [window.from_minute for window in self.windows]

    def allows(self, weekday: int, minute: int) -> bool:
        return any(window.allows(weekday, minute) for window in self.windows)


SendingHours = QuietHours | SendingWindow | SendingWindows


@dataclass(frozen=True, slots=True)
class Preset:
    """Windows that a law or a code of conduct asks for, under a name. The policy contains them, so
    that a later edition of the data file changes nothing that was agreed."""

    name: str
    windows: tuple[SendingWindow, ...]


@dataclass(frozen=True, slots=True)
class FrequencyCap:
    """At most this many messages to one address and channel in this many hours."""

    messages: int
    per_hours: int
    when_reached: WhenReached = WhenReached.WAIT
    channels: Channels = ALL_CHANNELS

    @property
    def period(self) -> timedelta:
        return timedelta(hours=self.per_hours)


@dataclass(frozen=True, slots=True)
class ScreenPolicies:
    """A workspace's settings; what is not set does not delay anything."""

    time_zone: str = TIME_ZONE_DEFAULT
    quiet_hours: QuietHours | None = None
    sending_windows: tuple[SendingWindow, ...] = ()
    frequency_cap: FrequencyCap | None = None
    retry: WorkflowRetry = USUAL_RETRY
    presets: tuple[Preset, ...] = ()
    exempt: frozenset[str] = frozenset()
    """Topics whose transactional messages go at any hour and beyond the cap."""

    @property
    def has_hours(self) -> bool:
        """Whether there is a time at which some message would have to wait."""
        return bool(self.quiet_hours or self.sending_windows or self.presets)

    def hours(self, channel: Channel) -> Sequence[SendingHours]:
        """All of them must allow a message."""
        quiet = self.quiet_hours
        hours: list[SendingHours] = []
        if quiet is not None and channel in quiet.channels:
            hours.append(quiet)
        for windows in (self.sending_windows, *(preset.windows for preset in self.presets)):
            own = [window for window in windows if channel in window.channels]
            if own:
                hours.append(own[0] if len(own) == 1 else SendingWindows(own))
        return hours

    def cap(self, channel: Channel) -> FrequencyCap | None:
        cap = self.frequency_cap
        return cap if cap is not None and channel in cap.channels else None

    def exempts(self, purpose: Purpose) -> bool:
        return purpose.transactional and purpose.topic in self.exempt

    def as_document(self) -> dict[str, Any]:
        """As people write it; channels and retries are named only where they differ from the
        default."""
        document: dict[str, Any] = {"timeZone": self.time_zone}
        if (quiet := self.quiet_hours) is not None:
            document["quietHours"] = {**_span(quiet), **_channels(quiet.channels)}
        if windows := [_window(each) for each in self.sending_windows]:
            document["sendingWindow"] = windows[0] if len(windows) == 1 else windows
        if (cap := self.frequency_cap) is not None:
            document["frequencyCap"] = {
                "messages": cap.messages,
                "perHours": cap.per_hours,
                "whenReached": cap.when_reached.value,
                **_channels(cap.channels),
            }
        if self.retry != USUAL_RETRY:
            document["retry"] = self.retry.as_document()
        if self.presets:
            document["presets"] = [each.name for each in self.presets]
        if self.exempt:
            document["exempt"] = sorted(self.exempt)
        return document

    def as_stored(self) -> dict[str, Any]:
        """With the windows of its presets."""
        presets = [
            {"name": each.name, "sendingWindow": [_window(window) for window in each.windows]}
            for each in self.presets
        ]
        return self.as_document() | ({"presets": presets} if presets else {})


def clock_time(minute: int) -> str:
    return f"{minute // MINUTES_PER_HOUR:02}:{minute % MINUTES_PER_HOUR:02}"


def _window(window: SendingWindow) -> dict[str, Any]:
    days = [DAYS[day] for day in sorted(window.days)]
    return {"days": days, **_span(window), **_channels(window.channels)}


def _span(hours: QuietHours | SendingWindow) -> dict[str, str]:
    return {"from": clock_time(hours.from_minute), "to": clock_time(hours.to_minute)}


def _channels(channels: Channels) -> dict[str, list[str]]:
    if channels == ALL_CHANNELS:
        return {}
    return {"channels": [channel.value for channel in Channel if channel in channels]}


def policies_from(document: Mapping[str, Any]) -> ScreenPolicies:
    """Reads what `as_stored` wrote; user input is parsed strictly elsewhere."""
    quiet = document.get("quietHours")
    cap, retry = document.get("frequencyCap"), document.get("retry")
    return ScreenPolicies(
        document["timeZone"],
        quiet and QuietHours(*_minutes(quiet), _channels_from(quiet)),
        _windows_from(document.get("sendingWindow")),
        cap
        and FrequencyCap(
            cap["messages"],
            cap["perHours"],
            WhenReached(cap["whenReached"]),
            _channels_from(cap),
        ),
        retry_from(retry) if retry else USUAL_RETRY,
        tuple(
            Preset(each["name"], _windows_from(each["sendingWindow"]))
            for each in document.get("presets", ())
        ),
        frozenset(document.get("exempt", ())),
    )


def _windows_from(given: Any) -> tuple[SendingWindow, ...]:
    windows = [given] if isinstance(given, Mapping) else given or []
    return tuple(
        SendingWindow(
            *_minutes(window),
            frozenset(DAYS.index(day) for day in window["days"]),
            _channels_from(window),
        )
        for window in windows
    )


def minute_of_day(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * MINUTES_PER_HOUR + int(minutes)


def _minutes(span: Mapping[str, str]) -> tuple[int, int]:
    return minute_of_day(span["from"]), minute_of_day(span["to"])


def _channels_from(policy: Mapping[str, Any]) -> Channels:
    named = policy.get("channels")
    return ALL_CHANNELS if named is None else frozenset(Channel(name) for name in named)
