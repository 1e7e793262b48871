"""The log: what lasts is one line at first and one a minute, and the rest is left as it is."""

import io
import json
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
import structlog

from outrider.telemetry import (
    REPEAT_SECONDS,
    SUBJECTS_A_MINUTE,
    TRANSITIONS,
    StillSo,
    configure_logging,
)

SOURCES = Path(__file__).parents[2] / "src/outrider"
WARNED = re.compile(r"log\.(?:warning|error|exception)\(\s*\"(\w+)\"")


def every_warning() -> set[str]:
    return {name for file in SOURCES.rglob("*.py") for name in WARNED.findall(file.read_text())}


class Log:
    """What a log has after the processor."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[structlog.typing.EventDict] = []
        self._still_so = StillSo(lambda: self.now)

    def say(self, event: str, *, method: str = "warning", **fields: object) -> None:
        try:
            self.lines.append(self._still_so(None, method, {"event": event, **fields}))
        except structlog.DropEvent:
            return


@pytest.mark.parametrize("event", sorted(every_warning() - TRANSITIONS))
def test_two_thousand_equal_warnings_are_one_line_a_minute(event: str) -> None:
    """Of every kind of warning there is: there is no list that a new one could be missing from."""
    log = Log()
    for number in range(2_000):
        log.now = number * 2 * REPEAT_SECONDS / 2_000
        log.say(event, error=f"away, for the {number}th time")
    assert len(log.lines) == 2
    assert log.lines[1]["for_seconds"] == REPEAT_SECONDS
    assert log.lines[1]["repeated"] == 999


def test_transitions_are_warnings_that_exist() -> None:
    text = "".join(file.read_text() for file in SOURCES.rglob("*.py"))
    assert [name for name in TRANSITIONS if f'"{name}"' not in text and "door" not in name] == []


def test_other_subjects_and_other_lines_are_not_dropped() -> None:
    log = Log()
    for sink in ("one", "two", "one"):
        log.say("bus_events_delayed", sink=sink, events=3, error="away")
    assert [line["sink"] for line in log.lines] == ["one", "two"]
    for _ in range(2):
        log.say("phase_controlled", method="info")
        log.say("alert_raised", code="TARGET_DOWN", subject="sms")
    assert len(log.lines) == 6


def test_of_a_warning_for_one_item_after_the_other_the_first_ten_a_minute_are_logged() -> None:
    log = Log()
    for number in range(500):
        log.say("retries_exhausted", outbox_id=str(number))
    assert len(log.lines) == SUBJECTS_A_MINUTE
    log.now = REPEAT_SECONDS
    log.say("retries_exhausted", outbox_id="next")
    assert log.lines[-1]["unlogged_of_others"] == 500 - SUBJECTS_A_MINUTE


def test_different_exceptions_are_different_lines() -> None:
    log = Log()
    for error in (ValueError(), ValueError(), KeyError()):
        log.say("loop_failed", method="error", loop="watcher", exc_info=error)
    for errors in (["ValueError"], ["KeyError"], ["KeyError"]):
        log.say("request_failed", method="error", errors=errors)
    assert Counter(line["event"] for line in log.lines) == {"loop_failed": 2, "request_failed": 2}


def test_requests_that_meet_the_same_outage_share_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    before = structlog.get_config()
    try:
        configure_logging("json")
        for number in range(3):
            with structlog.contextvars.bound_contextvars(request_id=str(number)):
                structlog.get_logger().error("store_unavailable", error="away")
    finally:
        structlog.configure(**before)
    (line,) = map(json.loads, said.getvalue().splitlines())
    assert (line["event"], line["request_id"]) == ("store_unavailable", "0")
