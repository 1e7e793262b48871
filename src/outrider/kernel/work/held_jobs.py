"""Held jobs: what this worker is processing, how many more may begin, and which yield their place.

A job that is being settled or yields begins no more calls, so another one may begin beside it.
"""

import asyncio
from collections import Counter

from outrider.domain.ids import JobId
from outrider.domain.submission import BATCH, REALTIME
from outrider.kernel.transactions.claims import Claim, ClaimedLane
from outrider.kernel.work.queue_turns import QueueTurns
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock

YIELD_FACTOR = 4
"""With more groups than places, a place is released after this multiple of the usual time."""


class HeldJobs:
    def __init__(self, clock: Clock, limits: Limits, turns: QueueTurns) -> None:
        self._turns = turns
        self._clock = clock
        self._limits = limits
        self._held: dict[asyncio.Task[None], Claim] = {}
        self._settling: set[JobId] = set()
        self._groups: dict[JobId, str] = {}
        self._began: dict[JobId, float] = {}
        self._yielding: set[JobId] = set()

    @property
    def tasks(self) -> frozenset[asyncio.Task[None]]:
        return frozenset(self._held)

    @property
    def jobs(self) -> list[Claim]:
        return list(self._held.values())

    def task_of(self, job_id: JobId) -> asyncio.Task[None] | None:
        return next((task for task, job in self._held.items() if job.id == job_id), None)

    def add(self, job: Claim, task: asyncio.Task[None]) -> None:
        self._held[task] = job
        self._began[job.id] = self._clock.monotonic()

    def remove(self, task: asyncio.Task[None]) -> Claim:
        job = self._held.pop(task)
        self._settling.discard(job.id)
        self._yielding.discard(job.id)
        self._groups.pop(job.id, None)
        self._began.pop(job.id, None)
        return job

    def note_group(self, job: Claim) -> None:
        self._groups[job.id] = job.queue_group

    def settles(self, job: Claim) -> None:
        """Its calls have ended; what is left of it is one transaction."""
        self._settling.add(job.id)

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

    def by_group(self) -> Counter[str]:
        return Counter(self._groups.values())

    def yields(self, job: Claim) -> bool:
        """Whether the job gives up its place: it begins no more calls."""
        return job.id in self._yielding

    def make_room(self) -> None:
        """If groups wait that have no active job here, others yield to them: first groups with more
        than their share, and after a while, or for urgent work, any group."""
        if self.room > 0:
            return
        held = self.by_group()
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
