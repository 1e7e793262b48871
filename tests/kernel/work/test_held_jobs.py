"""Held jobs: how many more may begin, and which of them yield when others wait."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from datetime import timedelta

from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, Fence, JobId, RunId
from outrider.domain.submission import BATCH, REALTIME
from outrider.kernel.transactions.claims import (
    Claim,
    ClaimedLane,
    ClaimedPhaseJob,
    QueueGroup,
)
from outrider.kernel.work.held_jobs import YIELD_FACTOR, HeldJobs
from outrider.kernel.work.queue_turns import QueueTurns, WorkFilter
from outrider.limits.kernel import Limits
from outrider.testing.clock import FakeClock

LIMITS = replace(
    Limits(), jobs_in_parallel=2, lanes_in_parallel=2, batch_lanes_in_parallel=1,
    yield_after_seconds=1.0,
)  # fmt: skip
BIG, OTHER, URGENT = "batch/a/sms", "batch/b/push", "realtime/c/sms"


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.turns = QueueTurns(WorkFilter(), lambda _target: None)
        self.held = HeldJobs(self.clock, LIMITS, self.turns)

    def begin(self, name: str, group: str = BIG) -> Claim:
        job = ClaimedPhaseJob(
            JobId(name), *DEFAULT_SCOPE, CampaignId("c"), RunId("r"), "launch", 1, 0, 5, Fence(1),
            cancelled=False, detail="", logical_attempt=1, plan_version="1", queue_group=group,
        )  # fmt: skip
        self._hold(job)
        self.held.note_group(job)
        return job

    def begin_lane(self, name: str, mode: str) -> None:
        until = self.clock.now() + timedelta(seconds=30)
        self._hold(ClaimedLane(JobId(name), *DEFAULT_SCOPE, "sms", mode, Fence(1), 0, until))

    def _hold(self, job: Claim) -> None:
        work: Coroutine[None, None, None] = asyncio.sleep(0)
        self.held.add(job, asyncio.create_task(work))

    def waits(self, *groups: str) -> None:
        self.turns.learn([QueueGroup(group, self.clock.now()) for group in groups])


async def test_a_job_that_is_being_settled_makes_room_for_another() -> None:
    bench = Bench()
    first, _ = bench.begin("1"), bench.begin("2")
    assert bench.held.room == 0
    bench.held.settles(first)
    assert bench.held.room == 1


async def test_an_ended_job_is_held_no_longer() -> None:
    bench = Bench()
    job = bench.begin("1")
    task = bench.held.task_of(job.id)
    assert task is not None
    assert bench.held.remove(task) is job
    assert (bench.held.room, bench.held.task_of(job.id), bench.held.by_group()[BIG]) == (2, None, 0)


async def test_lanes_take_no_room_from_jobs_and_batch_lanes_leave_some_to_realtime_ones() -> None:
    bench = Bench()
    bench.begin_lane("1", BATCH)
    assert bench.held.room == 2
    assert (bench.held.lane_room(BATCH), bench.held.lane_room(REALTIME)) == (0, 1)


async def test_a_group_with_more_than_its_share_yields_to_one_that_has_nothing() -> None:
    bench = Bench()
    oldest, newest = bench.begin("1"), bench.begin("2")
    bench.waits(OTHER)
    bench.held.make_room()
    assert not bench.held.yields(oldest), "it has hardly begun"
    bench.clock.advance(LIMITS.yield_after_seconds)
    bench.held.make_room()
    assert (bench.held.yields(oldest), bench.held.yields(newest)) == (True, False)
    assert bench.held.room == 1


async def test_no_job_yields_while_no_other_waits() -> None:
    bench = Bench()
    jobs = [bench.begin("1"), bench.begin("2")]
    bench.waits(BIG)
    bench.clock.advance(100)
    bench.held.make_room()
    assert not any(bench.held.yields(job) for job in jobs)


async def test_a_group_with_its_share_yields_after_a_while_and_sooner_to_urgent_work() -> None:
    for waiting, patience in ((OTHER, YIELD_FACTOR), (URGENT, 1)):
        bench = Bench()
        oldest, _ = bench.begin("1"), bench.begin("2", "batch/d/sms")
        bench.waits(waiting)
        bench.clock.advance(LIMITS.yield_after_seconds * patience - 0.5)
        bench.held.make_room()
        assert not bench.held.yields(oldest)
        bench.clock.advance(0.5)
        bench.held.make_room()
        assert bench.held.yields(oldest)
