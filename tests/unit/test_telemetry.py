"""The log: what lasts is one line at first and one a minute, and the rest is left as it is."""

import pytest
import structlog

from outrider.telemetry import REPEAT_SECONDS, StillSo


def test_two_thousand_equal_warnings_are_one_line_a_minute() -> None:
    now = [0.0]
    still_so = StillSo(lambda: now[0])
    said = []
    for number in range(2_000):
        now[0] = number * 2 * REPEAT_SECONDS / 2_000
        try:
            said.append(still_so(None, "warning", {"event": "rescue_failed", "error": "away"}))
        except structlog.DropEvent:
            continue
    assert len(said) == 2
    assert said[1]["for_seconds"] == REPEAT_SECONDS
    assert said[1]["repeated"] == 999


def test_other_subjects_and_other_lines_are_not_dropped() -> None:
    still_so = StillSo(lambda: 0.0)
    for sink in ("one", "two"):
        still_so(None, "warning", {"event": "bus_events_delayed", "sink": sink})
    with pytest.raises(structlog.DropEvent):
        still_so(None, "warning", {"event": "bus_events_delayed", "sink": "one"})
    for _ in range(2):
        still_so(None, "info", {"event": "phase_controlled"})
