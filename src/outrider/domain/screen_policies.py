"""A workspace's policies: when its workflow messages may arrive, how often per address, and how
often each is tried.

They delay messages that are due, never urgent ones. A policy names its channels; without names it
applies to all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

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
    def opening_minute(self) -> int:
        return self.to_minute % MINUTES_PER_DAY

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
    def opening_minute(self) -> int:
        return self.from_minute

    def allows(self, weekday: int, minute: int) -> bool:
        if self.from_minute < self.to_minute:
            return weekday in self.days and self.from_minute <= minute < self.to_minute
        day_before = (weekday - 1) % len(DAYS)
        return (weekday in self.days and minute >= self.from_minute) or (
            day_before in self.days and minute < self.to_minute
        )


SendingHours = QuietHours | SendingWindow


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
    sending_window: SendingWindow | None = None
    frequency_cap: FrequencyCap | None = None
    retry: WorkflowRetry = USUAL_RETRY

    def hours(self, channel: Channel) -> Sequence[SendingHours]:
        both: tuple[SendingHours | None, ...] = (self.quiet_hours, self.sending_window)
        return [each for each in both if each is not None and channel in each.channels]

    def cap(self, channel: Channel) -> FrequencyCap | None:
        cap = self.frequency_cap
        return cap if cap is not None and channel in cap.channels else None

    def as_document(self) -> dict[str, Any]:
        """As people write it; channels and retries are named only where they differ from the
        default."""
        document: dict[str, Any] = {"timeZone": self.time_zone}
        if (quiet := self.quiet_hours) is not None:
            document["quietHours"] = {**_span(quiet), **_channels(quiet.channels)}
        if (window := self.sending_window) is not None:
            days = [DAYS[day] for day in sorted(window.days)]
            document["sendingWindow"] = {
                "days": days, **_span(window), **_channels(window.channels),
            }  # fmt: skip
        if (cap := self.frequency_cap) is not None:
            document["frequencyCap"] = {
                "messages": cap.messages,
                "perHours": cap.per_hours,
                "whenReached": cap.when_reached.value,
                **_channels(cap.channels),
            }
        if self.retry != USUAL_RETRY:
            document["retry"] = self.retry.as_document()
        return document


def clock_time(minute: int) -> str:
    return f"{minute // MINUTES_PER_HOUR:02}:{minute % MINUTES_PER_HOUR:02}"


def _span(hours: SendingHours) -> dict[str, str]:
    return {"from": clock_time(hours.from_minute), "to": clock_time(hours.to_minute)}


def _channels(channels: Channels) -> dict[str, list[str]]:
    if channels == ALL_CHANNELS:
        return {}
    return {"channels": [channel.value for channel in Channel if channel in channels]}


def policies_from(document: Mapping[str, Any]) -> ScreenPolicies:
    """Reads what `as_document` wrote; user input is parsed strictly elsewhere."""
    quiet, window = document.get("quietHours"), document.get("sendingWindow")
    cap, retry = document.get("frequencyCap"), document.get("retry")
    return ScreenPolicies(
        document["timeZone"],
        quiet and QuietHours(*_minutes(quiet), _channels_from(quiet)),
        window
        and SendingWindow(
            *_minutes(window),
            frozenset(DAYS.index(day) for day in window["days"]),
            _channels_from(window),
        ),
        cap
        and FrequencyCap(
            cap["messages"],
            cap["perHours"],
            WhenReached(cap["whenReached"]),
            _channels_from(cap),
        ),
        retry_from(retry) if retry else USUAL_RETRY,
    )


def minute_of_day(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * MINUTES_PER_HOUR + int(minutes)


def _minutes(span: Mapping[str, str]) -> tuple[int, int]:
    return minute_of_day(span["from"]), minute_of_day(span["to"])


def _channels_from(policy: Mapping[str, Any]) -> Channels:
    named = policy.get("channels")
    return ALL_CHANNELS if named is None else frozenset(Channel(name) for name in named)
