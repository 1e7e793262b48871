"""A launch at local time: when it begins, and when it has come for each recipient."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from outrider.domain.local_launches import LocalLaunch

NINE = LocalLaunch(datetime(2026, 3, 29, 9), "UTC")


def test_a_window_starts_when_the_local_day_starts() -> None:
    assert NINE.begins_at == datetime(2026, 3, 28, 19, tzinfo=UTC)
    assert NINE.begins_at == NINE.instant([ZoneInfo("Pacific/Kiritimati")])


def test_sending_hours_follow_local_time() -> None:
    """On that day clocks go forward in Europe, and have gone forward in New York."""
    assert NINE.instant([ZoneInfo("Europe/London")]) == datetime(2026, 3, 29, 8, tzinfo=UTC)
    assert NINE.instant([ZoneInfo("America/New_York")]) == datetime(2026, 3, 29, 13, tzinfo=UTC)


def test_a_time_that_clocks_skip_comes_after_the_change() -> None:
    skipped = LocalLaunch(datetime(2026, 3, 29, 2, 30), "UTC")
    assert skipped.instant([ZoneInfo("Europe/Amsterdam")]) == datetime(
        2026, 3, 29, 1, 30, tzinfo=UTC
    )


def test_a_recipient_in_one_of_several_zones_is_sent_to_when_it_is_time_in_all_of_them() -> None:
    zones = [ZoneInfo("Asia/Tokyo"), ZoneInfo("America/New_York")]
    assert NINE.instant(zones) == datetime(2026, 3, 29, 13, tzinfo=UTC)
