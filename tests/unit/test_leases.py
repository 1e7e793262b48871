"""Until when a job is surely ours: what its opening took, or what a heartbeat confirmed since."""

from datetime import UTC, datetime, timedelta

from outrider.domain.ids import JobId
from outrider.kernel.caller import Leases

JOB = JobId("job")
TAKEN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_without_a_heartbeat_a_lease_ends_when_it_was_taken_until() -> None:
    assert Leases().end(JOB, TAKEN) == TAKEN


def test_a_heartbeat_moves_the_end_and_never_back() -> None:
    leases = Leases()
    leases.confirm(JOB, TAKEN + timedelta(seconds=10))
    assert leases.end(JOB, TAKEN) == TAKEN + timedelta(seconds=10)
    assert leases.end(JOB, TAKEN + timedelta(seconds=30)) == TAKEN + timedelta(seconds=30)


def test_a_job_that_was_let_go_has_no_heartbeat_any_more() -> None:
    leases = Leases()
    leases.confirm(JOB, TAKEN + timedelta(seconds=10))
    leases.forget(JOB)
    assert leases.end(JOB, TAKEN) == TAKEN
