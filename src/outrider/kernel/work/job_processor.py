"""The job processor: has jobs claimed, processes each of them, and keeps their leases alive.

It never cancels a job. A worker that lost its lease learns that from the ledger, which lets it
close its calls in progress and refuses new ones.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import JobId
from outrider.domain.jobs import Settlement, Unfinished
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.campaign_delivery import CampaignDelivery
from outrider.kernel.delivery.lane_delivery import LaneDelivery
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import jobs
from outrider.kernel.transactions.claims import Claim, ClaimedJob, ClaimedLane, ClaimedPhaseJob
from outrider.kernel.transactions.jobs import JobState
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.kernel.work.held_jobs import HeldJobs
from outrider.kernel.work.job_claimer import JobClaimer, TakenJobs
from outrider.kernel.work.job_releaser import JobReleaser
from outrider.kernel.work.job_step_recorder import StepRecorder
from outrider.kernel.work.phase_work import PhaseWork

log = structlog.get_logger()


class JobProcessor:
    def __init__(
        self,
        foundation: Foundation,
        held: HeldJobs,
        claimer: JobClaimer,
        releaser: JobReleaser,
        delivery: CampaignDelivery,
        lane_delivery: LaneDelivery,
        phase_work: PhaseWork,
        step_recorder: StepRecorder,
        permits: CallPermits,
    ) -> None:
        self._store = foundation.store
        self._held = held
        self._claimer = claimer
        self._releaser = releaser
        self._delivery = delivery
        self._lane_delivery = lane_delivery
        self._phase_work = phase_work
        self._step_recorder = step_recorder
        self._permits = permits
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._notify_room: Callable[[], None] = lambda: None
        claimer.begin = self._begin

    @property
    def held(self) -> frozenset[asyncio.Task[None]]:
        """The jobs in progress; each task ends when its job has."""
        return self._held.tasks

    def when_there_is_room(self, notify: Callable[[], None]) -> None:
        """Call back when a job has ended, or is being settled: there is room for another."""
        self._notify_room = notify

    def wake_lanes(self) -> None:
        """There may be something new in a lane that is held here."""
        self._lane_delivery.wake()

    def look_at_controls(self) -> None:
        """A job that is held here may have been paused or stopped."""
        self._permits.wake()

    async def get_ready(self) -> None:
        await self._claimer.get_ready()

    async def take_due(self, *, woken: bool, rested: bool = False) -> TakenJobs:
        """Claim due jobs and start them."""
        return await self._claimer.take_due(woken=woken, rested=rested)

    async def process(self, job_id: JobId) -> JobState | None:
        """Process this one job if it is due and free, and return its state; None: no such job.

        If this process is already processing it, wait for that.
        """
        task = self._held.task_of(job_id)
        if task is None:
            await self._claimer.take(job_id)
            task = self._held.task_of(job_id)
        if task is not None:
            await asyncio.shield(task)
        return await self._store.read(jobs.job_state(job_id))

    async def keep_leases(self) -> None:
        """Extend the leases of all held jobs, one statement per beat; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.heartbeat_seconds)
            held = self._held.jobs
            if not held:
                continue
            now = self._clock.now()
            try:
                kept = await self._store.write(jobs.heartbeat(held, now + self._claimer.lease, now))
            except StoreUnavailable as error:
                log.warning("heartbeat_failed", error=error.message)
                continue
            for job in held:
                if job.id in kept:
                    self._permits.extend(job.id, now + self._claimer.lease)
                elif job in self._held.jobs:
                    log.warning("lease_lost", job_id=job.id)

    def _begin(self, claimed: Sequence[Claim]) -> None:
        if not claimed:
            return
        # Once for all of them, and before any of them begins. Lanes are not steps of a run.
        logging_start = None
        if not all(isinstance(job, ClaimedLane) for job in claimed):
            logging_start = asyncio.create_task(self._step_recorder.started(claimed))
        for job in claimed:
            task = asyncio.create_task(self._process(job, logging_start), name=f"job {job.id}")
            self._held.add(job, task)
            task.add_done_callback(self._forget)

    async def _process(self, job: Claim, logging_start: asyncio.Task[None] | None) -> None:
        settlement: Settlement | LeaseLost | None
        try:
            match job:
                case ClaimedLane():
                    settlement = await self._lane_delivery.process(job)
                case ClaimedPhaseJob():
                    await _start_logged(logging_start)
                    settlement = await self._phase_work.process(job)
                case ClaimedJob():
                    outcome = await self._delivery.deliver(
                        job, partial(_start_logged, logging_start)
                    )
                    self._held.settles(job)
                    self._notify_room()
                    settlement = await self._delivery.settle(job, outcome)
                case other:
                    assert_never(other)
        except Exception as error:
            await self._releaser.raised(job, error)
            return
        if isinstance(settlement, LeaseLost):
            await self._releaser.lease_lost(job)
        elif isinstance(settlement, Unfinished):
            await self._releaser.fail(
                job, f"{settlement.unreserved} items unreserved, {settlement.open} calls still open"
            )

    def _forget(self, task: asyncio.Task[None]) -> None:
        job = self._held.remove(task)
        self._permits.forget(job.id)
        self._notify_room()
        task.result()


async def _start_logged(logging_start: asyncio.Task[None] | None) -> None:
    """Shared by several jobs, so that none of them may cancel it for the others."""
    if logging_start is not None:
        await asyncio.shield(logging_start)
