"""The job processor: claims jobs, has each of them processed, and keeps their leases alive.

It never cancels a job. A worker that lost its lease learns that from the ledger, which lets it
close its calls in progress and refuses new ones.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, assert_never

import msgspec
import structlog

from outrider.domain.errors import (
    ArtifactsUnavailable,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from outrider.domain.ids import JobId, WorkerId
from outrider.domain.jobs import Settlement, Unfinished
from outrider.domain.retry import JOB
from outrider.domain.submission import BATCH, REALTIME
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.campaign_delivery import Delivery
from outrider.kernel.delivery.lane_delivery import LaneDelivery
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.budgeted_store import BudgetExceeded
from outrider.kernel.transactions import claims, jobs, lost_jobs
from outrider.kernel.transactions.claims import (
    Claim,
    ClaimedJob,
    ClaimedLane,
    ClaimedPhaseJob,
    Claimer,
    LaneTargets,
    QueueGroup,
)
from outrider.kernel.transactions.jobs import JobState
from outrider.kernel.transactions.settlement import LeaseLost, give_up_job
from outrider.kernel.work.job_step_recorder import StepRecorder
from outrider.kernel.work.phase_work import PhaseWork
from outrider.kernel.work.queue_turns import QueueTurns, WorkFilter
from outrider.ports.call_journal import CallJournal
from outrider.ports.engine import Engine
from outrider.ports.stages import Stage, StageObserver
from outrider.ports.store import Transaction

log = structlog.get_logger()


class Taken(NamedTuple):
    """How many jobs were taken, and how soon the next one is due, if any."""

    jobs: int
    next_due_seconds: float | None


AFTER_BATCH = f"{BATCH}0"
"""Sorts after all names of batch groups: the urgent ones."""
YIELD_FACTOR = 4
"""With more groups than places, a place is released after this multiple of the usual time."""


class JobProcessor:
    def __init__(
        self,
        foundation: Foundation,
        engine: Engine,
        delivery: Delivery,
        lane_delivery: LaneDelivery,
        phase_work: PhaseWork,
        step_recorder: StepRecorder,
        permits: CallPermits,
        journal: CallJournal,
        turns: QueueTurns,
        work_filter: WorkFilter,
        closed_targets: Callable[[], Mapping[str, datetime]],
        worker_id: WorkerId,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._engine = engine
        self._delivery = delivery
        self._lane_delivery = lane_delivery
        self._phase_work = phase_work
        self._step_recorder = step_recorder
        self._permits = permits
        self._journal = journal
        self._turns = turns
        self._filter = work_filter
        self._closed_targets = closed_targets
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._worker_id = worker_id
        self._limits = foundation.limits
        self._observer = observer
        self._held: dict[asyncio.Task[None], Claim] = {}
        self._settling: set[JobId] = set()
        self._groups: dict[JobId, str] = {}
        self._began: dict[JobId, float] = {}
        self._yielding: set[JobId] = set()
        self._groups_read_at: float | None = None
        self._groups_after = ""
        self._lanes_due: dict[str, datetime] = {}
        self._notify_room: Callable[[], None] = lambda: None
        lane_delivery.when_missed = self._missed

    @property
    def held(self) -> frozenset[asyncio.Task[None]]:
        """The jobs in progress; each task ends when its job has."""
        return frozenset(self._held)

    @property
    def room(self) -> int:
        """How many run jobs may begin. A job that is being settled or yields begins no more calls
        and frees its place; at most half as many may do so as are active. Lanes have their own
        places."""
        most = self._limits.jobs_in_parallel
        held = sum(not isinstance(job, ClaimedLane) for job in self._held.values())
        return min(most - (held - len(self._leaving)), most + most // 2 - held)

    def lane_room(self, mode: str) -> int:
        """Lanes of batch targets leave some places to realtime ones."""
        lanes = Counter(job.mode for job in self._held.values() if isinstance(job, ClaimedLane))
        room = self._limits.lanes_in_parallel - lanes.total()
        if mode == REALTIME:
            return room
        return min(room, self._limits.batch_lanes_in_parallel - lanes[BATCH])

    def when_there_is_room(self, tell: Callable[[], None]) -> None:
        """Call back when a job has ended, or is being settled: there is room for another."""
        self._notify_room = tell

    def wake_lanes(self) -> None:
        """There may be something new in a lane that is held here."""
        self._lane_delivery.wake()

    def look_at_controls(self) -> None:
        """A job that is held here may have been paused or stopped."""
        self._permits.wake()

    async def get_ready(self) -> None:
        """Run as many queries at once as there will be jobs, so that a store opens its connections
        now, and not under the first campaign."""
        questions = range(self._limits.jobs_in_parallel)
        groups = (claims.queue_groups("", 1) for _ in questions)
        await asyncio.gather(*(self._store.read(each) for each in groups))

    async def take_due(self, *, told: bool, rested: bool = False) -> Taken:
        """Claim due jobs and start them. Lanes first: claiming them is quicker, and a single
        message waits for nothing else. Without a wake-up lanes are not claimed, and after a mere
        rest only checked, which is cheaper."""
        taken = 0
        if rested and not told:
            self._lanes_due = await self._store.read(claims.next_lanes_due(self._lane_targets({})))
        if told or self._a_lane_is_due():
            taken += await self._take_lanes()
        taken += await self._take_jobs(fresh=told or rested)
        return Taken(taken, self._next_due_seconds())

    async def _take_lanes(self) -> int:
        taken = 0
        closed = self._closed_targets()
        of = self._lane_targets(closed)
        for mode in (REALTIME, BATCH):
            room = self.lane_room(mode)
            if room > 0 and self._filter.takes_mode(mode):
                now = self._clock.now()
                taken += await self._take(claims.claim_lanes(self._claimer(), mode, of, room, now))
            if mode == REALTIME and not taken:
                self._lane_delivery.nothing_came()
        self._lanes_due = await self._store.read(claims.next_lanes_due(of))
        if closed:
            # Whichever of them opens first may have due lanes.
            opens_at = min(closed.values())
            for mode in (REALTIME, BATCH):
                self._lanes_due[mode] = min(opens_at, self._lanes_due.get(mode, opens_at))
        return taken

    def _missed(self, lane: ClaimedLane) -> None:
        """Something may have arrived for it while it was being given back."""
        self._lanes_due[lane.mode] = self._clock.now()

    def _a_lane_is_due(self) -> bool:
        now = self._clock.now()
        return any(
            run_at <= now
            for mode, run_at in self._lanes_due.items()
            if self._filter.takes_mode(mode) and self.lane_room(mode) > 0
        )

    async def _take_jobs(self, *, fresh: bool) -> int:
        await self._read_groups(fresh=fresh)
        self._make_room()
        taken = 0
        while (room := self.room) > 0:
            wanted = self._turns.choose(room, self._held_by_group(), self._clock.now())
            if not wanted:
                break
            taken += await self._claim_from(wanted)
        return taken

    async def _claim_from(self, wanted: Mapping[str, int]) -> int:
        """A group that had fewer jobs than requested is not asked again before the next reading."""
        script = claims.claim(self._claimer(), wanted, self._clock.now())
        claimed = await self._claimed(script)
        for job in claimed:
            self._groups[job.id] = job.queue_group
        by_group = Counter(job.queue_group for job in claimed)
        for name, most in wanted.items():
            if by_group[name] < most:
                self._turns.drained(name)
        self._begin(claimed)
        return len(claimed)

    async def _read_groups(self, *, fresh: bool) -> None:
        """Read the waiting groups again after a wake-up, and otherwise at an interval."""
        now = self._clock.monotonic()
        read_at = self._groups_read_at
        if fresh or read_at is None or now - read_at >= self._limits.queue_groups_seconds:
            self._groups_read_at = now
            self._turns.learn(await self._waiting_groups())

    async def _waiting_groups(self) -> list[QueueGroup]:
        """All of them; or, if there are more than one query returns, the urgent ones and as many of
        the others, each time the next ones."""
        most = self._limits.queue_groups
        groups = await self._store.read(claims.queue_groups("", most))
        if len(groups) < most:
            self._groups_after = ""
            return groups
        urgent = await self._store.read(claims.queue_groups(AFTER_BATCH, most))
        page = await self._store.read(claims.queue_groups(self._groups_after, most))
        self._groups_after = page[-1].name if len(page) == most else ""
        return urgent + [each for each in page if each.mode == BATCH]

    def _held_by_group(self) -> Counter[str]:
        return Counter(self._groups.values())

    def _next_due_seconds(self) -> float | None:
        """Seconds until the next unclaimed job is due; negative if one is due now."""
        due_times = [
            run_at
            for mode, run_at in self._lanes_due.items()
            if self._filter.takes_mode(mode) and self.lane_room(mode) > 0
        ]
        next_group = self._turns.next_due() if self.room > 0 else None
        if next_group is not None:
            due_times.append(next_group)
        if not due_times:
            return None
        return (min(due_times) - self._clock.now()).total_seconds()

    def yields(self, job: Claim) -> bool:
        """Whether the job gives up its place: it begins no more calls."""
        return job.id in self._yielding

    def _make_room(self) -> None:
        """If groups wait that have no active job here, others yield to them: first groups with more
        than their share, and after a while, or for urgent work, any group."""
        if self.room > 0:
            return
        held = self._held_by_group()
        waiting = [each for each in self._turns.due(self._clock.now()) if not held[each.name]]
        if not waiting:
            return
        is_urgent = any(each.mode == REALTIME or each.is_cancelled for each in waiting)
        share = max(1, self._limits.jobs_in_parallel // (len(held) + len(waiting)))
        patience = self._limits.yield_after_seconds
        now = self._clock.monotonic()
        staying = Counter(
            name for job_id, name in self._groups.items() if job_id not in self._leaving
        )
        oldest_first = sorted(self._groups, key=lambda job_id: self._began[job_id])
        for job_id in oldest_first:
            if len(waiting) <= len(self._yielding) or self.room > 0:
                return
            name, held_seconds = self._groups[job_id], now - self._began[job_id]
            if job_id in self._leaving or held_seconds < patience:
                continue
            too_many = staying[name] > share
            has_had_its_turn = held_seconds >= YIELD_FACTOR * patience
            if too_many or has_had_its_turn or (is_urgent and not name.startswith(REALTIME)):
                staying[name] -= 1
                self._yielding.add(job_id)

    @property
    def _leaving(self) -> set[JobId]:
        return self._settling | self._yielding

    def _lane_targets(self, closed: Collection[str]) -> LaneTargets:
        targets = self._filter.targets
        wanted = None if targets is None else msgspec.json.encode(sorted(targets)).decode()
        return LaneTargets(wanted, msgspec.json.encode(sorted(closed)).decode())

    async def _take(self, script: Transaction[list[Claim]]) -> int:
        claimed = await self._claimed(script)
        self._begin(claimed)
        return len(claimed)

    async def process(self, job_id: JobId) -> JobState | None:
        """Process this one job if it is due and free, and return its state; None: no such job.

        If this process is already processing it, wait for that.
        """
        task = self._task_of(job_id)
        if task is None:
            now = self._clock.now()
            claimed = await self._claimed(claims.claim_given(self._claimer(), job_id, now))
            self._begin(claimed)
            task = self._task_of(job_id)
        if task is not None:
            await asyncio.shield(task)
        return await self._store.read(jobs.job_state(job_id))

    async def keep_leases(self) -> None:
        """Extend the leases of all held jobs, one statement per beat; runs until cancelled."""
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
                    self._permits.extend(job.id, now + self._lease)
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
        asked_at, until = self._clock.monotonic(), self._clock.now() + self._lease
        claimed = await self._store.write(script)
        if claimed:
            self._observer.after(Stage.CLAIM)
        for job in claimed:
            self._permits.take(job, until, asked_at)
        return claimed

    def _begin(self, claimed: Sequence[Claim]) -> None:
        if not claimed:
            return
        # Once for all of them, and before any of them begins. Lanes are not steps of a run.
        logging_start = None
        if not all(isinstance(job, ClaimedLane) for job in claimed):
            logging_start = asyncio.create_task(self._step_recorder.started(claimed))
        for job in claimed:
            task = asyncio.create_task(self._process(job, logging_start), name=f"job {job.id}")
            self._held[task] = job
            self._began[job.id] = self._clock.monotonic()
            task.add_done_callback(self._forget)

    def _task_of(self, job_id: JobId) -> asyncio.Task[None] | None:
        return next((task for task, job in self._held.items() if job.id == job_id), None)

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
                    self._settling.add(job.id)
                    self._notify_room()
                    settlement = await self._delivery.settle(job, outcome)
                case other:
                    assert_never(other)
        except Exception as error:
            cause = _first(error)
            if _is_away(cause):
                log.warning("job_waits_for_store", job_id=job.id, error=str(cause))
                await self._give_back(job)
                return
            log.exception("job_failed", job_id=job.id, run_id=job.run_id)
            error_text = f"{type(cause).__name__}: {cause}"
            if not await self._gave_up(job, cause, error_text):
                await self._fail(job, error_text)
            return
        if isinstance(settlement, LeaseLost):
            log.warning("lease_lost", job_id=job.id)
            await self._release_lost(job)
        elif isinstance(settlement, Unfinished):
            await self._fail(
                job, f"{settlement.unreserved} items unreserved, {settlement.open} calls still open"
            )

    async def _gave_up(self, job: Claim, cause: Exception, error: str) -> bool:
        """End a job that has used its last attempt: its remaining members are skipped, and included
        in a retry. If even that cannot be written, they keep no outcome. An unavailable store is no
        reason to give up: the data is still there when it is back."""
        if not (isinstance(job, ClaimedJob) and job.is_exhausted):
            return False
        if isinstance(cause, StoreError) and not isinstance(cause, StoreRefused):
            return False
        try:
            gave_up = await self._delivery.give_up(job, self._journal.begun())
            self._journal.let_go(job.id, job.fence)
            return gave_up
        except StoreUnavailable as lost:
            log.warning("job_left_to_its_lease", job_id=job.id, error=lost.message)
            return True
        except Exception:
            log.exception("job_cannot_be_wound_up", job_id=job.id)
        script = give_up_job(job, error, self._worker_id, self._ids, self._clock.now())
        try:
            gave_up = await self._store.write(script)
            self._journal.let_go(job.id, job.fence)
            return gave_up
        except StoreError as lost:
            log.warning("job_left_to_its_lease", job_id=job.id, error=lost.message)
            return True

    async def _release_lost(self, job: Claim) -> None:
        try:
            await self._store.write(lost_jobs.release_lost(job))
        except StoreError as error:
            # A verdict on its items then waits longer than necessary.
            log.warning("lost_lease_kept", job_id=job.id, error=error.message)

    async def _give_back(self, job: Claim) -> None:
        """An unavailable store is not the job's fault: it continues when the store is back, without
        losing an attempt. All calls of the job have ended by now."""
        try:
            await self._delivery.durable(job)
        except StoreUnavailable as error:
            log.warning("job_left_to_its_lease", job_id=job.id, error=error.message)
            return
        began = self._clock.monotonic()
        backoff_seconds = self._limits.store_backoff_seconds
        while self._clock.monotonic() - began < self._limits.close_patience_seconds:
            await self._clock.sleep(backoff_seconds * (1 + self._ids.jitter()) / 2)
            now = self._clock.now()
            begun = self._journal.begun()
            script = (
                jobs.release(job, now, now)
                if begun is None
                else jobs.give_back(job, begun, now, now)
            )
            try:
                if not await self._store.write(script):
                    await self._release_lost(job)
                self._journal.let_go(job.id, job.fence)
                return
            except StoreUnavailable as error:
                log.warning("job_waits_for_store", job_id=job.id, error=error.message)
            except StoreError as error:
                log.warning("job_left_to_its_lease", job_id=job.id, error=error.message)
                return
        log.warning("job_left_to_its_lease", job_id=job.id, error="the store is unavailable")

    async def _fail(self, job: Claim, error: str) -> None:
        """Uses up one of the job's attempts. If even that cannot be written, its lease expires."""
        now = self._clock.now()
        delay = JOB.delay_seconds(job.attempts + 1, jitter=self._ids.jitter())
        try:
            await self._store.write(
                lost_jobs.fail(
                    job, error, now + timedelta(seconds=delay), self._worker_id, self._ids, now
                )
            )
            self._journal.let_go(job.id, job.fence)
        except StoreError as lost:
            log.warning("job_left_to_its_lease", job_id=job.id, error=lost.message)

    def _forget(self, task: asyncio.Task[None]) -> None:
        job = self._held.pop(task)
        self._settling.discard(job.id)
        self._yielding.discard(job.id)
        self._groups.pop(job.id, None)
        self._began.pop(job.id, None)
        self._permits.let_go(job.id)
        self._notify_room()
        task.result()


def _is_away(cause: Exception) -> bool:
    """The database cannot be used. One that is merely slow is handled separately, and an
    unavailable artifact store concerns only the job itself."""
    return isinstance(cause, StoreUnavailable) and not isinstance(
        cause, BudgetExceeded | ArtifactsUnavailable
    )


def _first(error: Exception) -> Exception:
    """Of concurrent failures, the first: the others were cancelled because of it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _start_logged(logging_start: asyncio.Task[None] | None) -> None:
    """Shared by several jobs, so that none of them may cancel it for the others."""
    if logging_start is not None:
        await asyncio.shield(logging_start)
