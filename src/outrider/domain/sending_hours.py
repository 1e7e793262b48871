"""Sending hours: whether a message may go now by its recipient's local clock, or when it may.

Only local time counts: an hour that repeats when clocks go back is quiet twice, and one that is
skipped when they go forward is neither quiet nor open.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from outrider.domain.screen_policies import MINUTES_PER_HOUR, SendingHours, WaitsFor

PHONE_PREFIX = "+"
PhoneZones = Callable[[str], Sequence[str]]
"""The time zones in which a phone number may be; its prefix may leave several open."""

ZONES_REMEMBERED = 1_024
HORIZON_DAYS = 15
"""A weekly window may be skipped once, when the clocks go forward over it."""
STEPS_MAX = 50
"""Quiet hours and a window alternate at most a few times a day."""
SAMPLE = timedelta(hours=6)
"""No zone changes its offset and changes it back within this time."""
SECOND = timedelta(seconds=1)


class Wait(NamedTuple):
    until: datetime
    waits_for: WaitsFor


class Zones(NamedTuple):
    """Where a recipient may be. `unknown` is an unrecognised zone name that was passed over."""

    zones: tuple[tzinfo, ...]
    unknown: str | None = None


@lru_cache(maxsize=ZONES_REMEMBERED)
def zone_named(name: str) -> tzinfo | None:
    """None if there is no such time zone."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def zones_of(own: str | None, address: str | None, default: str, phone_zones: PhoneZones) -> Zones:
    """The recipient's own zone, else those of its phone number, else the workspace's, else UTC."""
    unknown = None
    if own:
        found = zone_named(own)
        if found is not None:
            return Zones((found,))
        unknown = own
    if address is not None and address.startswith(PHONE_PREFIX):
        named = (zone_named(name) for name in phone_zones(address))
        if zones := tuple(zone for zone in named if zone is not None):
            return Zones(zones, unknown)
    found = zone_named(default)
    return Zones((UTC if found is None else found,), unknown or (default if not found else None))


def wait_in_all(
    hours: Sequence[SendingHours], zones: Sequence[tzinfo], now: datetime
) -> Wait | None:
    """As `wait`, for a recipient who may be in any of these zones: it goes when all allow it. If no
    time suits all of them, the first decides."""
    candidate, last = now, None
    for _ in range(STEPS_MAX):
        waits = [each for each in (wait(hours, zone, candidate) for zone in zones) if each]
        if not waits:
            return None if last is None else Wait(candidate, last.waits_for)
        last = max(waits, key=lambda each: each.until)
        candidate = last.until
        if candidate >= now + timedelta(days=HORIZON_DAYS):
            break
    return wait(hours, zones[0], now)


def wait(hours: Sequence[SendingHours], zone: tzinfo, now: datetime) -> Wait | None:
    """None: it may go. Else until when it waits, and the last reason for waiting.

    If no time within the horizon is allowed, it waits until the horizon.
    """
    candidate, waits_for = now, None
    horizon = now + timedelta(days=HORIZON_DAYS)
    for _ in range(STEPS_MAX):
        closed = next((each for each in hours if not allows(each, zone, candidate)), None)
        if closed is None:
            break
        waits_for = closed.waits_for
        candidate = next(
            (
                at
                for at in _candidates(closed, zone, candidate, horizon)
                if allows(closed, zone, at)
            ),
            horizon,
        )
        if candidate >= horizon:
            break
    return None if waits_for is None else Wait(min(candidate, horizon), waits_for)


def allows(hours: SendingHours, zone: tzinfo, moment: datetime) -> bool:
    local = moment.astimezone(zone)
    return hours.allows(local.weekday(), local.hour * MINUTES_PER_HOUR + local.minute)


def _candidates(
    hours: SendingHours, zone: tzinfo, after: datetime, horizon: datetime
) -> Iterator[datetime]:
    """Every time at which these hours could start to allow it: their minute on each day, both times
    where it repeats, and every clock change."""
    first = after.astimezone(zone).date()
    on_the_wall = (
        datetime.combine(first + timedelta(days=day), time(*opening, fold=fold), zone)
        for opening in (divmod(each, MINUTES_PER_HOUR) for each in hours.opening_minutes)
        for day in range(HORIZON_DAYS + 1)
        for fold in (0, 1)
    )
    candidates = {local.astimezone(UTC) for local in on_the_wall}
    candidates.update(_changes(zone, after, horizon))
    return (candidate for candidate in sorted(candidates) if after < candidate < horizon)


def _changes(zone: tzinfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """The clock changes between these two times, to the second."""
    begin = begin.astimezone(UTC).replace(microsecond=0)
    while begin < end:
        sampled = begin + SAMPLE
        if _offset(zone, begin) != _offset(zone, sampled):
            yield _change_between(zone, begin, sampled)
        begin = sampled


def _change_between(zone: tzinfo, before: datetime, after: datetime) -> datetime:
    old = _offset(zone, before)
    while after - before > SECOND:
        middle = before + (after - before) // SECOND // 2 * SECOND
        if _offset(zone, middle) == old:
            before = middle
        else:
            after = middle
    return after


def _offset(zone: tzinfo, moment: datetime) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()
