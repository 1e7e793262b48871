"""Quiet hours and sending windows by the clock on the wall, also where that clock is changed."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outrider.documents.phone_zones import phone_zones
from outrider.documents.presets import presets
from outrider.domain.screen_policies import (
    MINUTES_PER_DAY,
    Preset,
    QuietHours,
    ScreenPolicies,
    SendingHours,
    SendingWindow,
    WaitsFor,
    minute_of_day,
)
from outrider.domain.sending_hours import (
    HORIZON_DAYS,
    allows,
    wait,
    wait_in_all,
    zone_named,
    zones_of,
)
from outrider.domain.states import Channel

MINUTE = timedelta(minutes=1)
AMSTERDAM = ZoneInfo("Europe/Amsterdam")
NEW_YORK = ZoneInfo("America/New_York")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
APIA = ZoneInfo("Pacific/Apia")
WORKDAYS = frozenset(range(5))
NIGHT = QuietHours(minute_of_day("21:00"), minute_of_day("08:00"))


def quiet(begins: str, ends: str) -> QuietHours:
    return QuietHours(minute_of_day(begins), minute_of_day(ends))


def window(begins: str, ends: str, *days: int) -> SendingWindow:
    return SendingWindow(minute_of_day(begins), minute_of_day(ends), frozenset(days or range(7)))


def local(text: str, zone: ZoneInfo, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold).astimezone(UTC)


def until(hours: SendingHours, zone: ZoneInfo, now: datetime) -> datetime | None:
    found = wait([hours], zone, now)
    return found.until if found else None


@pytest.mark.parametrize(
    ("now", "ends"),
    [
        ("2026-06-01T20:59:59.999999", None),
        ("2026-06-01T21:00", "2026-06-02T08:00"),
        ("2026-06-02T00:00", "2026-06-02T08:00"),
        ("2026-06-02T07:59:59", "2026-06-02T08:00"),
        ("2026-06-02T08:00", None),
    ],
)
def test_quiet_hours_over_midnight_end_in_the_morning(now: str, ends: str | None) -> None:
    expected = local(ends, AMSTERDAM) if ends else None
    assert until(NIGHT, AMSTERDAM, local(now, AMSTERDAM)) == expected


def test_the_night_is_an_hour_shorter_when_the_clocks_go_forward() -> None:
    begins = local("2026-03-28T21:00", AMSTERDAM)
    ends = until(NIGHT, AMSTERDAM, begins)
    assert ends == datetime(2026, 3, 29, 6, 0, tzinfo=UTC)
    assert ends - begins == timedelta(hours=10)


def test_the_night_is_an_hour_longer_when_the_clocks_go_back() -> None:
    begins = local("2026-10-24T21:00", AMSTERDAM)
    ends = until(NIGHT, AMSTERDAM, begins)
    assert ends == datetime(2026, 10, 25, 7, 0, tzinfo=UTC)
    assert ends - begins == timedelta(hours=12)


def test_quiet_hours_that_end_in_an_hour_that_never_comes_end_when_the_clocks_are_changed() -> None:
    ends = until(quiet("22:00", "02:30"), NEW_YORK, local("2026-03-08T01:00", NEW_YORK))
    assert ends == datetime(2026, 3, 8, 7, 0, tzinfo=UTC)
    assert ends.astimezone(NEW_YORK).hour == 3


def test_an_hour_that_comes_twice_is_quiet_twice() -> None:
    hours = quiet("23:00", "01:30")
    first_end = until(hours, NEW_YORK, local("2026-11-01T00:30", NEW_YORK))
    assert first_end == local("2026-11-01T01:30", NEW_YORK)
    assert until(hours, NEW_YORK, local("2026-11-01T01:45", NEW_YORK)) is None
    again = local("2026-11-01T01:10", NEW_YORK, fold=1)
    assert until(hours, NEW_YORK, again) == local("2026-11-01T01:30", NEW_YORK, fold=1)


def test_a_window_that_closed_opens_again_in_an_hour_that_comes_twice() -> None:
    closed = local("2026-11-01T01:50", NEW_YORK)
    opens = until(window("01:00", "01:45"), NEW_YORK, closed)
    assert opens == local("2026-11-01T01:00", NEW_YORK, fold=1)


def test_a_window_within_an_hour_that_never_comes_opens_on_the_next_day() -> None:
    opens = until(window("02:10", "02:50"), NEW_YORK, local("2026-03-08T01:00", NEW_YORK))
    assert opens == local("2026-03-09T02:10", NEW_YORK)


def test_a_weekly_window_that_the_clocks_jump_over_opens_a_week_later() -> None:
    sundays = window("02:10", "02:50", 6)
    opens = until(sundays, NEW_YORK, local("2026-03-01T03:00", NEW_YORK))
    assert opens == local("2026-03-15T02:10", NEW_YORK)


def test_a_window_that_starts_in_a_skipped_hour_opens_when_the_clocks_change() -> None:
    opens = until(window("02:30", "05:00"), NEW_YORK, local("2026-03-08T01:00", NEW_YORK))
    assert opens == datetime(2026, 3, 8, 7, 0, tzinfo=UTC)


def test_half_an_hour_of_summer_time_counts_too() -> None:
    opens = until(window("02:15", "04:00"), LORD_HOWE, local("2026-10-04T01:00", LORD_HOWE))
    assert opens is not None
    assert opens.astimezone(LORD_HOWE).strftime("%H:%M") == "02:30"


def test_a_day_that_never_came_is_no_sending_day() -> None:
    """Samoa went from Thursday the 29th to Saturday the 31st of December 2011."""
    fridays = window("09:00", "17:00", 4)
    opens = until(fridays, APIA, local("2011-12-29T18:00", APIA))
    assert opens == local("2012-01-06T09:00", APIA)


def test_on_friday_evening_a_message_waits_until_monday() -> None:
    office = SendingWindow(minute_of_day("09:00"), minute_of_day("17:30"), WORKDAYS)
    friday = local("2026-06-05T17:30", AMSTERDAM)
    assert until(office, AMSTERDAM, friday) == local("2026-06-08T09:00", AMSTERDAM)
    assert until(office, AMSTERDAM, friday - MINUTE) is None


def test_a_window_over_midnight_belongs_to_the_day_on_which_it_opens() -> None:
    friday_night = window("22:00", "02:00", 4)
    assert until(friday_night, AMSTERDAM, local("2026-06-06T01:59", AMSTERDAM)) is None
    after = local("2026-06-06T02:00", AMSTERDAM)
    assert until(friday_night, AMSTERDAM, after) == local("2026-06-12T22:00", AMSTERDAM)
    saturday_night = local("2026-06-06T23:00", AMSTERDAM)
    assert until(friday_night, AMSTERDAM, saturday_night) == local("2026-06-12T22:00", AMSTERDAM)


def test_an_item_waits_for_a_time_that_both_quiet_hours_and_window_allow() -> None:
    office = SendingWindow(minute_of_day("07:00"), minute_of_day("17:30"), WORKDAYS)
    friday = local("2026-06-05T22:00", AMSTERDAM)
    found = wait([NIGHT, office], AMSTERDAM, friday)
    assert found is not None
    assert found.until == local("2026-06-08T08:00", AMSTERDAM)
    assert found.waits_for is WaitsFor.QUIET_HOURS


def test_hours_that_never_agree_let_it_wait_until_the_horizon() -> None:
    now = local("2026-06-05T12:00", AMSTERDAM)
    found = wait([quiet("08:00", "20:00"), window("09:00", "17:00")], AMSTERDAM, now)
    assert found is not None
    assert now < found.until <= now + timedelta(days=HORIZON_DAYS)


def test_without_hours_everything_may_go() -> None:
    assert wait([], UTC, datetime(2026, 1, 1, tzinfo=UTC)) is None


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Europe/Amsterdm",
        "Europe",
        "../../etc/passwd",
        "/etc/localtime",
        "a\x00b",
        "\ud800",
        "x" * 300,
    ],
)
def test_a_name_that_is_no_zone_is_never_an_error(name: str) -> None:
    assert zone_named(name) is None
    found = zones_of(name, None, "Europe/Amsterdam", phone_zones)
    assert found == ((AMSTERDAM,), name or None)


def test_a_recipients_own_zone_wins() -> None:
    def of(own: str | None, address: str | None, default: str) -> tuple[object, ...]:
        return zones_of(own, address, default, phone_zones)

    paris = "+33612345678"
    assert of("America/New_York", paris, "Europe/Amsterdam") == ((NEW_YORK,), None)
    assert of(None, paris, "Europe/Amsterdam") == ((ZoneInfo("Europe/Paris"),), None)
    assert of("No/Where", paris, "Europe/Amsterdam") == ((ZoneInfo("Europe/Paris"),), "No/Where")
    assert of(None, "+999", "Europe/Amsterdam") == ((AMSTERDAM,), None)
    assert of(None, "a@example.test", "Europe/Amsterdam") == ((AMSTERDAM,), None)
    assert of(None, None, "No/Where") == ((UTC,), "No/Where")


def test_a_number_of_several_zones_is_called_when_all_of_them_allow_it() -> None:
    """A toll-free number: from the Atlantic coast to Hawaii, 8 to 21 o'clock is few hours."""
    zones = zones_of(None, "+18005551212", "UTC", phone_zones).zones
    assert len(zones) > 10
    day = [SendingWindow(8 * 60, 21 * 60)]
    morning = datetime(2026, 6, 1, 13, tzinfo=UTC)
    found = wait_in_all(day, zones, morning)
    assert found is not None
    assert all(allows(day[0], zone, found.until) for zone in zones)
    assert not all(allows(day[0], zone, found.until - timedelta(seconds=1)) for zone in zones)
    assert wait_in_all(day, zones, found.until) is None


def test_zones_without_a_common_hour_follow_the_first() -> None:
    zones = (ZoneInfo("Asia/Tokyo"), ZoneInfo("America/Los_Angeles"))
    hour = [SendingWindow(9 * 60, 10 * 60)]
    now = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert wait_in_all(hour, zones, now) == wait(hour, zones[0], now)


def test_several_windows_of_a_day_are_open_one_after_the_other() -> None:
    """As a law asks: from 10 to 13 and from 14 to 20 o'clock on weekdays."""
    france = presets()["fr"].preset.windows
    policies = ScreenPolicies("Europe/Paris", presets=(Preset("fr", france),))
    hours = policies.hours(Channel.VOICE)
    paris = ZoneInfo("Europe/Paris")
    lunch = datetime(2026, 6, 1, 13, 30, tzinfo=paris)
    found = wait(hours, paris, lunch)
    assert found is not None
    assert found.until == datetime(2026, 6, 1, 14, tzinfo=paris)
    friday_evening = datetime(2026, 6, 5, 20, tzinfo=paris)
    found = wait(hours, paris, friday_evening)
    assert found is not None
    assert found.until == datetime(2026, 6, 8, 10, tzinfo=paris)
    assert policies.hours(Channel.EMAIL) == []


ZONES = [
    "Europe/Amsterdam", "America/New_York", "Australia/Lord_Howe", "America/St_Johns",
    "Africa/Casablanca", "Asia/Kathmandu", "Pacific/Chatham", "America/Asuncion", "Africa/Cairo",
]  # fmt: skip
"""Some change their clocks at midnight, some by half an hour, some four times a year."""
CHANGES = [
    datetime(2026, 3, 8, tzinfo=UTC), datetime(2026, 3, 29, tzinfo=UTC),
    datetime(2026, 4, 4, tzinfo=UTC), datetime(2026, 4, 24, tzinfo=UTC),
    datetime(2026, 2, 15, tzinfo=UTC), datetime(2026, 10, 3, tzinfo=UTC),
    datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC),
    datetime(2026, 9, 26, tzinfo=UTC), datetime(2026, 10, 29, tzinfo=UTC),
]  # fmt: skip

minutes = st.integers(0, MINUTES_PER_DAY - 1)
spans = st.tuples(minutes, minutes).filter(lambda span: span[0] != span[1])
policies: st.SearchStrategy[Any] = st.one_of(
    st.builds(lambda span: QuietHours(span[0], span[1]), spans),
    st.builds(
        lambda span, days: SendingWindow(span[0], span[1], frozenset(days)),
        spans,
        st.sets(st.integers(0, 6), min_size=3),
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    hours=policies,
    zone=st.sampled_from(ZONES),
    change=st.sampled_from(CHANGES),
    minutes_after=st.integers(-2 * MINUTES_PER_DAY, 2 * MINUTES_PER_DAY),
)
def test_it_waits_for_the_first_minute_that_is_allowed(
    hours: SendingHours, zone: str, change: datetime, minutes_after: int
) -> None:
    """Found again by looking at every minute; all clocks here are changed at a whole one."""
    where = ZoneInfo(zone)
    now = change + minutes_after * MINUTE
    found = wait([hours], where, now)
    expected = now
    while not allows(hours, where, expected):
        expected += MINUTE
    assert (found.until if found else now) == expected
