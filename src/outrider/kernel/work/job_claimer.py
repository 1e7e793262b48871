"""The job claimer: claims due jobs with a lease and a higher fence, lanes first, groups in turn.

Lanes are claimed when there may be something new in them; the groups of waiting jobs are read
again after a wake-up, and otherwise at an interval.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from outrider.domain.ids import JobId, WorkerId
from outrider.domain.submission import BATCH, REALTIME
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.lane_delivery import LaneDelivery
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import claims
from outrider.kernel.transactions.claims import (
    Claim,
    ClaimedLane,
    Claimer,
    QueueGroup,
    WantedLanes,
)
from outrider.kernel.work.held_jobs import HeldJobs
from outrider.kernel.work.queue_turns import QueueTurns, WorkFilter
from outrider.ports.engine import Engine
from outrider.ports.stages import Stage, StageObserver
from outrider.ports.store import Transaction

AFTER_BATCH = f"{BATCH}0"
"""Sorts after all names of batch groups: the urgent ones."""


class TakenJobs(NamedTuple):
    """How many jobs were taken, and how soon the next one is due, if any."""

    jobs: int
    next_due_seconds: float | None


class JobClaimer:
    def __init__(
        self,
        foundation: Foundation,
        engine: Engine,
        held: HeldJobs,
        lane_delivery: LaneDelivery,
        permits: CallPermits,
        turns: QueueTurns,
        work_filter: WorkFilter,
        closed_targets: Callable[[], Mapping[str, datetime]],
        worker_id: WorkerId,
        observer: StageObserver,
    ) -> None:
        self._store = foundation.store
        self._engine = engine
        self._held = held
        self._lane_delivery = lane_delivery
        self._permits = permits
        self._turns = turns
        self._filter = work_filter
        self._closed_targets = closed_targets
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._worker_id = worker_id
        self._limits = foundation.limits
        self._observer = observer
        self._groups_read_at: float | None = None
        self._groups_after = ""
        self._lanes_due: dict[str, datetime] = {}
        self.begin: Callable[[Sequence[Claim]], None] = lambda _claimed: None
        """Starts what was claimed, so that it counts as held."""
        lane_delivery.when_missed = self._missed

    async def get_ready(self) -> None:
        """Run as many queries at once as there will be jobs, so that a store opens its connections
        now, and not under the first campaign."""
        questions = range(self._limits.jobs_in_parallel)
        groups = (claims.queue_groups("", 1) for _ in questions)
        await asyncio.gather(*(self._store.read(each) for each in groups))

    async def take_due(self, *, woken: bool, rested: bool = False) -> TakenJobs:
        """Claim due jobs and start them. Lanes first: claiming them is quicker, and a single
        message waits for nothing else. Without a wake-up lanes are not claimed, and after a mere
        rest only checked, which is cheaper."""
        taken = 0
        if rested and not woken:
            self._lanes_due = await self._store.read(claims.next_lanes_due(self._lane_targets({})))
        if woken or self._a_lane_is_due():
            taken += await self._take_lanes()
        taken += await self._take_jobs(fresh=woken or rested)
        return TakenJobs(taken, self._next_due_seconds())

    async def take(self, job_id: JobId) -> None:
        """Claim this one job and start it, if it is due and free."""
        await self._take(claims.claim_given(self._claimer(), job_id, self._clock.now()))

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self._limits.lease_seconds)

    async def _take_lanes(self) -> int:
        taken = 0
        closed = self._closed_targets()
        of = self._lane_targets(closed)
        for mode in (REALTIME, BATCH):
            room = self._held.lane_room(mode)
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
            if self._filter.takes_mode(mode) and self._held.lane_room(mode) > 0
        )

    async def _take_jobs(self, *, fresh: bool) -> int:
        await self._read_groups(fresh=fresh)
        self._held.make_room()
        taken = 0
        while (room := self._held.room) > 0:
            wanted = self._turns.choose(room, self._held.by_group(), self._clock.now())
            if not wanted:
                break
            taken += await self._claim_from(wanted)
        return taken

    async def _claim_from(self, wanted: Mapping[str, int]) -> int:
        """A group that had fewer jobs than requested is not asked again before the next reading."""
        script = claims.claim(self._claimer(), wanted, self._clock.now())
        claimed = await self._claimed(script)
        for job in claimed:
            self._held.note_group(job)
        by_group = Counter(job.queue_group for job in claimed)
        for name, most in wanted.items():
            if by_group[name] < most:
                self._turns.drained(name)
        self.begin(claimed)
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

    def _next_due_seconds(self) -> float | None:
        """Seconds until the next unclaimed job is due; negative if one is due now."""
        due_times = [
            run_at
            for mode, run_at in self._lanes_due.items()
            if self._filter.takes_mode(mode) and self._held.lane_room(mode) > 0
        ]
        next_group = self._turns.next_due() if self._held.room > 0 else None
        if next_group is not None:
            due_times.append(next_group)
        if not due_times:
            return None
        return (min(due_times) - self._clock.now()).total_seconds()

    def _lane_targets(self, closed: Collection[str]) -> WantedLanes:
        targets = self._filter.targets
        wanted = None if targets is None else msgspec.json.encode(sorted(targets)).decode()
        return WantedLanes(wanted, msgspec.json.encode(sorted(closed)).decode())

    async def _take(self, script: Transaction[list[Claim]]) -> int:
        claimed = await self._claimed(script)
        self.begin(claimed)
        return len(claimed)

    def _claimer(self) -> Claimer:
        until = self._clock.now() + self.lease
        return Claimer(self._worker_id, until, self._engine.reference, self._ids)

    async def _claimed(self, script: Transaction[list[Claim]]) -> list[Claim]:
        self._observer.before(Stage.CLAIM)
        asked_at, until = self._clock.monotonic(), self._clock.now() + self.lease
        claimed = await self._store.write(script)
        if claimed:
            self._observer.after(Stage.CLAIM)
        for job in claimed:
            self._permits.take(job, until, asked_at)
        return claimed
