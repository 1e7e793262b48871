"""The job processor: holds jobs, has each of them done, and keeps their leases alive.

It never cancels a job. A worker that lost its lease learns so from the ledger, which lets it close
the calls it has out and refuses it a new one.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple, assert_never

import structlog

from outrider.domain.errors import StoreError, StoreUnavailable
from outrider.domain.ids import JobId, WorkerId
from outrider.domain.jobs import Settlement, Unfinished
from outrider.domain.retry import JOB
from outrider.kernel.caller import Leases
from outrider.kernel.delivery import Delivery
from outrider.kernel.lane_delivery import LaneDelivery
from outrider.kernel.phase_work import PhaseWork
from outrider.kernel.step_recorder import StepRecorder
from outrider.kernel.transactions import jobs
from outrider.kernel.transactions.jobs import (
    Claim,
    ClaimedJob,
    ClaimedLane,
    ClaimedPhaseJob,
    Claimer,
    Standing,
)
from outrider.kernel.transactions.settlement import LeaseLost
from outrider.ports.clock import Clock, IdSource
from outrider.ports.engine import Engine
from outrider.ports.stages import Stage, StageObserver
from outrider.ports.store import Store, Transaction
from outrider.settings import Limits

log = structlog.get_logger()


class Taken(NamedTuple):
    """How many jobs were taken, and in how long the next one is due, if any is."""

    jobs: int
    next_due_seconds: float | None


class JobProcessor:
    def __init__(
        self,
        store: Store,
        engine: Engine,
        delivery: Delivery,
        lane_delivery: LaneDelivery,
        phase_work: PhaseWork,
        step_recorder: StepRecorder,
        leases: Leases,
        clock: Clock,
        ids: IdSource,
        worker_id: WorkerId,
        limits: Limits,
        observer: StageObserver,
    ) -> None:
        self._store = store
        self._engine = engine
        self._delivery = delivery
        self._lane_delivery = lane_delivery
        self._phase_work = phase_work
        self._step_recorder = step_recorder
        self._leases = leases
        self._clock = clock
        self._ids = ids
        self._worker_id = worker_id
        self._limits = limits
        self._observer = observer
        self._held: dict[asyncio.Task[None], Claim] = {}
        self._settling: set[JobId] = set()
        self._is_at_runs = False
        self._tell_room: Callable[[], None] = lambda: None

    @property
    def held(self) -> frozenset[asyncio.Task[None]]:
        """The jobs under way; each of these ends when its job has."""
        return frozenset(self._held)

    @property
    def room(self) -> int:
        """How many jobs more may begin. What is being settled makes no calls any more, and leaves
        its place to another; half as many may be so as are at work."""
        most, held = self._limits.jobs_in_parallel, len(self._held)
        return min(most - (held - len(self._settling)), most + most // 2 - held)

    def when_there_is_room(self, tell: Callable[[], None]) -> None:
        """Tell when a job has ended, or is being settled: there is room for another then."""
        self._tell_room = tell

    async def get_ready(self) -> None:
        """Ask as many questions at once as there will be jobs, so that a store that opens lines for
        them does so now, and not under the first campaign."""
        questions = range(self._limits.jobs_in_parallel)
        await asyncio.gather(*(self.next_due_seconds() for _ in questions))

    async def take_due(self, most: int) -> Taken:
        """Claim the oldest due jobs and begin them. Lanes first, of those whose turn it is: they
        are claimed in less time, and a single message waits for nothing else. While there are runs
        to work on, that would be a question more for each of their jobs."""
        taken = 0
        if not self._is_at_runs:
            taken = await self._take(jobs.claim_lanes(self._claimer(), most, self._clock.now()))
            due_seconds = await self.next_due_seconds() if taken < most else None
            if due_seconds is None or due_seconds > 0:
                return Taken(taken, due_seconds)
        taken += await self._take(jobs.claim(self._claimer(), most - taken, self._clock.now()))
        self._is_at_runs = taken == most
        return Taken(taken, None if taken == most else await self.next_due_seconds())

    async def _take(self, script: Transaction[list[Claim]]) -> int:
        claimed = await self._claimed(script)
        self._begin(claimed)
        return len(claimed)

    async def next_due_seconds(self) -> float | None:
        """In how long the next job is due that nobody holds; below zero, there is one now."""
        run_at = await self._store.read(jobs.next_due())
        return None if run_at is None else (run_at - self._clock.now()).total_seconds()

    async def process(self, job_id: JobId) -> Standing | None:
        """Do this one job if it is due and free, and tell how it stands then; None: no such job.

        Asked again while this process is at it already, it waits for that.
        """
        task = self._task_of(job_id)
        if task is None:
            now = self._clock.now()
            claimed = await self._claimed(jobs.claim_given(self._claimer(), job_id, now))
            self._begin(claimed)
            task = self._task_of(job_id)
        if task is not None:
            await asyncio.shield(task)
        return await self._store.read(jobs.standing(job_id))

    async def keep_leases(self) -> None:
        """Extend the leases of all held jobs, one statement a beat; runs until cancelled."""
        while True:
            await self._clock.sleep(self._limits.heartbeat_seconds)
            held = list(self._held.values())
            if not held:
                continue
            now = self._clock.now()
            try:
                kept = await self._store.write(jobs.heartbeat(held, now + self._lease, now))
            except StoreUnavailable as error:
                log.warning("heartbeat_failed", error=error.message)
                continue
            for job in held:
                if job.id in kept:
                    self._leases.confirm(job.id, now + self._lease)
                elif job in self._held.values():
                    log.warning("lease_lost", job_id=job.id)

    @property
    def _lease(self) -> timedelta:
        return timedelta(seconds=self._limits.lease_seconds)

    def _claimer(self) -> Claimer:
        until = self._clock.now() + self._lease
        return Claimer(self._worker_id, until, self._engine.reference, self._ids)

    async def _claimed(self, script: Transaction[list[Claim]]) -> list[Claim]:
        self._observer.before(Stage.CLAIM)
        claimed = await self._store.write(script)
        if claimed:
            self._observer.after(Stage.CLAIM)
        return claimed

    def _begin(self, claimed: Sequence[Claim]) -> None:
        if not claimed:
            return
        # Once for all of them, and before any of them begins. Lanes are no steps of a run.
        telling = None
        if not all(isinstance(job, ClaimedLane) for job in claimed):
            telling = asyncio.create_task(self._step_recorder.started(claimed))
        for job in claimed:
            task = asyncio.create_task(self._process(job, telling), name=f"job {job.id}")
            self._held[task] = job
            task.add_done_callback(self._let_go)

    def _task_of(self, job_id: JobId) -> asyncio.Task[None] | None:
        return next((task for task, job in self._held.items() if job.id == job_id), None)

    async def _process(self, job: Claim, telling: asyncio.Task[None] | None) -> None:
        settlement: Settlement | LeaseLost | None
        try:
            match job:
                case ClaimedLane():
                    settlement = await self._lane_delivery.process(job)
                case ClaimedPhaseJob():
                    await _told(telling)
                    settlement = await self._phase_work.process(job)
                case ClaimedJob():
                    passage = await self._delivery.deliver(job, partial(_told, telling))
                    self._settling.add(job.id)
                    self._tell_room()
                    settlement = await self._delivery.settle(job, passage)
                case other:
                    assert_never(other)
        except Exception as error:
            log.exception("job_failed", job_id=job.id, run_id=job.run_id)
            await self._fail(job, f"{type(error).__name__}: {error}")
            return
        if isinstance(settlement, LeaseLost):
            log.warning("lease_lost", job_id=job.id)
        elif isinstance(settlement, Unfinished):
            await self._fail(
                job, f"{settlement.unreserved} items unreserved, {settlement.open} calls still open"
            )

    async def _fail(self, job: Claim, error: str) -> None:
        """Uses up one of the job's attempts. Where even that cannot be written, its lease ends."""
        now = self._clock.now()
        delay = JOB.delay_seconds(job.attempts + 1, jitter=self._ids.jitter())
        try:
            await self._store.write(
                jobs.fail(
                    job, error, now + timedelta(seconds=delay), self._worker_id, self._ids, now
                )
            )
        except StoreError as lost:
            log.warning("job_left_to_its_lease", job_id=job.id, error=lost.message)

    def _let_go(self, task: asyncio.Task[None]) -> None:
        job = self._held.pop(task)
        self._settling.discard(job.id)
        self._leases.forget(job.id)
        self._tell_room()
        task.result()


async def _told(telling: asyncio.Task[None] | None) -> None:
    """Once for several jobs, so that none of them may end it for the others."""
    if telling is not None:
        await asyncio.shield(telling)
