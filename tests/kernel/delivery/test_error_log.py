"""The error log: the first provider error of each kind per minute."""

from structlog.testing import capture_logs

from outrider.domain.call_results import Accepted, AttemptError, Progress, Throttled
from outrider.kernel.delivery.error_log import ErrorLog
from outrider.limits.delivery import ERROR_LOGGED_AGAIN_SECONDS
from outrider.testing.clock import FakeClock


def test_two_thousand_equal_errors_are_one_line_a_minute() -> None:
    clock = FakeClock()
    errors = ErrorLog(clock)
    with capture_logs() as logged:
        for _ in range(2_000):
            errors.note("sms.main", "http://one.test", Throttled("HTTP 503 for ada@example.test"))
        errors.note("sms.main", "http://one.test", AttemptError(Progress.NOT_SENT, "connect"))
        errors.note("sms.main", "http://one.test", Accepted("id"))
        clock.advance(ERROR_LOGGED_AGAIN_SECONDS)
        errors.note("sms.main", "http://one.test", Throttled("HTTP 503"))
    assert [(line["kind"], line["unlogged_before"]) for line in logged] == [
        ("throttled", 0), ("connect", 0), ("throttled", 1_999),
    ]  # fmt: skip
    assert "ada@example.test" not in str(logged)
