"""Whether a call may begin: while its job is surely ours, and nobody is known to have paused it."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import CampaignId, Fence, JobId, RunId, TenantId, WorkspaceId
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.transactions.claims import Claim, ClaimedLane, ClaimedPhaseJob
from outrider.limits.kernel import Limits
from outrider.ports.store import Store, Transaction
from outrider.testing.clock import FakeClock
from tests.support.foundations import foundation

TAKEN = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMITS = Limits()
LEASE_SECONDS = 30.0
JOB = ClaimedPhaseJob(
    JobId("job"), TenantId("t"), WorkspaceId("w"), CampaignId("c"), RunId("r"), "enrich", 1, 0, 5,
    Fence(1), False, "{}", 1, "v1", "batch/w/enrich",
)  # fmt: skip
LANE = ClaimedLane(
    JobId("lane"), TenantId("t"), WorkspaceId("w"), "target", "realtime", Fence(1), 0, TAKEN
)


class ToldStore:
    """Answers how each held job stands, and remembers which suspensions were seen."""

    def __init__(self) -> None:
        self.suspended: dict[str, bool] = {}
        self.seen: list[str] = []
        self.is_gone = False

    async def read(self, script: Transaction[Any]) -> Any:
        query = next(script)
        assert (query.name, query.window is None) == ("suspensions", False)
        if self.is_gone:
            raise StoreUnavailable("the store is gone")
        try:
            script.send([(each, self.suspended[each]) for each in self.suspended])
        except StopIteration as end:
            return end.value
        raise AssertionError("one question is enough")

    async def write(self, script: Transaction[Any]) -> Any:
        query = next(script)
        assert query.name == "see_suspensions"
        assert query.window is not None
        self.seen += [str(each) for each in query.window["id"]]
        script.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(TAKEN)


@pytest.fixture
def told() -> ToldStore:
    return ToldStore()


@pytest.fixture
def permits(told: ToldStore, clock: FakeClock) -> CallPermits:
    return CallPermits(foundation(cast("Store", told), clock=clock, limits=LIMITS))


def take(permits: CallPermits, clock: FakeClock, job: Claim = JOB) -> datetime:
    until = clock.now() + timedelta(seconds=LEASE_SECONDS)
    permits.take(job, until, clock.monotonic())
    return until


def test_a_job_that_is_not_held_here_starts_no_call(permits: CallPermits) -> None:
    assert not permits.may_begin(JOB.id, TAKEN + timedelta(hours=1))


def test_a_lane_starts_calls_until_its_lease_ends(permits: CallPermits, clock: FakeClock) -> None:
    until = take(permits, clock, LANE)
    clock.advance(LEASE_SECONDS - 0.001)
    assert permits.may_begin(LANE.id, until)
    clock.advance(0.001)
    assert not permits.may_begin(LANE.id, until)


def test_the_time_to_connect_counts_too(permits: CallPermits, clock: FakeClock) -> None:
    until = take(permits, clock, LANE)
    clock.advance(LEASE_SECONDS)
    assert permits.may_begin(LANE.id, until + timedelta(seconds=10))


def test_a_heartbeat_moves_the_end_and_never_back(permits: CallPermits, clock: FakeClock) -> None:
    until = take(permits, clock, LANE)
    permits.extend(LANE.id, until + timedelta(seconds=10))
    permits.extend(LANE.id, until - timedelta(seconds=10))
    clock.advance(LEASE_SECONDS + 9)
    assert permits.may_begin(LANE.id, until)
    clock.advance(1)
    assert not permits.may_begin(LANE.id, until)


def test_a_job_that_is_no_longer_held_starts_no_call(
    permits: CallPermits, clock: FakeClock
) -> None:
    for job in (JOB, LANE):
        until = take(permits, clock, job)
        permits.forget(job.id)
        assert not permits.may_begin(job.id, until)
        # A heartbeat that was on its way meanwhile brings nothing back.
        permits.extend(job.id, until)
        permits.confirm(job.id, until, clock.monotonic())
        assert not permits.may_begin(job.id, until)


def test_a_permit_lasts_only_so_long_without_word_from_the_database(
    permits: CallPermits, clock: FakeClock
) -> None:
    """So whoever pauses a run need wait no longer for a worker that says nothing."""
    until = take(permits, clock)
    clock.advance(LIMITS.permit_seconds)
    assert permits.may_begin(JOB.id, until)
    clock.advance(0.001)
    assert not permits.may_begin(JOB.id, until)
    permits.extend(JOB.id, until + timedelta(hours=1))
    assert not permits.may_begin(JOB.id, until)
    permits.confirm(JOB.id, until, clock.monotonic())
    assert permits.may_begin(JOB.id, until)


def test_word_that_was_asked_for_earlier_makes_no_permit_longer(
    permits: CallPermits, clock: FakeClock
) -> None:
    until = take(permits, clock)
    asked_at = clock.monotonic()
    clock.advance(1)
    permits.confirm(JOB.id, until, clock.monotonic())
    permits.confirm(JOB.id, until, asked_at)
    clock.advance(LIMITS.permit_seconds)
    assert permits.may_begin(JOB.id, until)


async def test_a_look_that_finds_nothing_renews_the_permit_from_when_it_was_asked(
    permits: CallPermits, told: ToldStore, clock: FakeClock
) -> None:
    until = take(permits, clock)
    told.suspended = {JOB.id: False}
    clock.advance(1)
    await permits.look()
    clock.advance(LIMITS.permit_seconds)
    assert permits.may_begin(JOB.id, until)
    assert told.seen == []


async def test_a_paused_job_starts_no_call_and_reports_once_that_it_saw_the_pause(
    permits: CallPermits, told: ToldStore, clock: FakeClock
) -> None:
    until = take(permits, clock)
    told.suspended = {JOB.id: True}
    await permits.look()
    await permits.look()
    assert JOB.id in permits.suspended
    assert not permits.may_begin(JOB.id, until)
    assert told.seen == [JOB.id]


async def test_a_resumed_job_continues_and_a_second_pause_is_seen_again(
    permits: CallPermits, told: ToldStore, clock: FakeClock
) -> None:
    until = take(permits, clock)
    for is_suspended in (True, False, True):
        told.suspended = {JOB.id: is_suspended}
        await permits.look()
        assert permits.may_begin(JOB.id, until) != is_suspended
    assert told.seen == [JOB.id, JOB.id]


async def test_a_job_that_is_not_ours_in_the_database_starts_no_call(
    permits: CallPermits, told: ToldStore, clock: FakeClock
) -> None:
    until = take(permits, clock)
    told.suspended = {}
    await permits.look()
    assert not permits.may_begin(JOB.id, until)


async def test_lanes_are_not_asked_about(
    permits: CallPermits, told: ToldStore, clock: FakeClock
) -> None:
    take(permits, clock, LANE)
    told.is_gone = True
    await permits.look()


async def test_without_the_database_nothing_is_renewed(
    permits: CallPermits, told: ToldStore, clock: FakeClock
) -> None:
    until = take(permits, clock)
    told.is_gone = True
    clock.advance(1)
    with pytest.raises(StoreUnavailable):
        await permits.look()
    clock.advance(LIMITS.permit_seconds - 0.999)
    assert not permits.may_begin(JOB.id, until)
