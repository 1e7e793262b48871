"""A name that is no time zone is logged once."""

import structlog

from outrider.kernel.delivery.unknown_zones import UnknownZones
from outrider.limits.workflows import UNKNOWN_ZONES_REMEMBERED


def test_each_name_is_logged_once_and_there_is_an_end_to_it() -> None:
    zones = UnknownZones()
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            zones.note("No/Where")
    assert [entry["time_zone"] for entry in logged] == ["No/Where"]
    with structlog.testing.capture_logs() as logged:
        for number in range(2 * UNKNOWN_ZONES_REMEMBERED):
            zones.note(f"No/Where{number}")
    assert len(logged) == UNKNOWN_ZONES_REMEMBERED - 1
