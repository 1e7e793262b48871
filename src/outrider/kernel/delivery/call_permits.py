"""Call permits: decides, immediately before a call, whether a held job may still begin it.

It may while the lease is certainly ours and the database has recently confirmed that the run is not
paused or stopped. A worker that was frozen meanwhile therefore begins nothing when it wakes.
"""

import asyncio
from collections.abc import Set
from contextlib import suppress
from datetime import datetime

import structlog

from outrider.domain.errors import StoreError
from outrider.domain.ids import JobId
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import jobs
from outrider.kernel.transactions.claims import Claim, ClaimedLane

log = structlog.get_logger()


class CallPermits:
    def __init__(self, foundation: Foundation) -> None:
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits
        self._held: dict[JobId, Claim] = {}
        self._lease_ends: dict[JobId, datetime] = {}
        self._confirmed: dict[JobId, float] = {}
        self._suspended: set[JobId] = set()
        self._surely_until: dict[JobId, float] = {}
        self._seen: set[JobId] = set()
        self._woken = asyncio.Event()

    def take(self, job: Claim, lease_expires_at: datetime, asked_at: float) -> None:
        """The job was claimed by a query sent at `asked_at`."""
        self._held[job.id] = job
        self.confirm(job.id, lease_expires_at, asked_at)

    def confirm(self, job_id: JobId, lease_expires_at: datetime, asked_at: float) -> None:
        """The database confirmed, in answer to a query sent at `asked_at`, that the job is ours and
        active."""
        if job_id in self._held:
            self.extend(job_id, lease_expires_at)
            self._confirmed[job_id] = max(asked_at, self._confirmed.get(job_id, asked_at))

    def extend(self, job_id: JobId, lease_expires_at: datetime) -> None:
        if job_id not in self._held:
            return
        known = self._lease_ends.get(job_id, lease_expires_at)
        self._lease_ends[job_id] = max(known, lease_expires_at)

    def forget(self, job_id: JobId) -> None:
        self._held.pop(job_id, None)
        self._lease_ends.pop(job_id, None)
        self._confirmed.pop(job_id, None)
        self._surely_until.pop(job_id, None)
        self._suspended.discard(job_id)
        self._seen.discard(job_id)

    @property
    def suspended(self) -> Set[JobId]:
        """The jobs that were paused or stopped; a live view."""
        return self._suspended

    def may_begin(self, job_id: JobId, call_by: datetime) -> bool:
        """Nothing may be awaited between the answer and the first byte."""
        now = self._clock.monotonic()
        if now < self._surely_until.get(job_id, 0.0):
            return True
        return self._may_begin(job_id, call_by, now)

    def _may_begin(self, job_id: JobId, call_by: datetime, now: float) -> bool:
        """A positive answer is cached briefly: many calls begin at the same time."""
        job = self._held.get(job_id)
        if job is None or job_id in self._suspended:
            return False
        trusted_until = now + self._limits.permit_trust_seconds
        if not isinstance(job, ClaimedLane):
            # Lanes are never paused; for a run's job the database has to be asked repeatedly.
            permit_ends = self._confirmed[job_id] + self._limits.permit_seconds
            if now > permit_ends:
                return False
            trusted_until = min(trusted_until, permit_ends)
        lease_end = max(call_by, self._lease_ends[job_id])
        left_seconds = (lease_end - self._clock.now()).total_seconds()
        if left_seconds <= 0:
            return False
        if left_seconds > self._limits.permit_seconds:
            self._surely_until[job_id] = trusted_until
        return True

    def wake(self) -> None:
        """A run may have been paused or stopped; cheap, and safe to call for nothing."""
        self._woken.set()

    async def run(self) -> None:
        """Poll whether held jobs are still active; runs until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._limits.permit_look_seconds):
                    await self._woken.wait()
            self._woken.clear()
            try:
                await self.look()
            except StoreError as error:
                log.warning("suspensions_not_read", error=error.message)

    async def look(self) -> None:
        held = [job for job in self._held.values() if not isinstance(job, ClaimedLane)]
        if not held:
            return
        asked_at = self._clock.monotonic()
        found = await self._store.read(jobs.suspensions(held))
        for job in held:
            if job.id not in self._held:
                continue
            if found.get(job.id, True):
                self._suspended.add(job.id)
                self._surely_until.pop(job.id, None)
            else:
                self._suspended.discard(job.id)
                self._seen.discard(job.id)
                self._confirmed[job.id] = max(asked_at, self._confirmed[job.id])
        fresh = [job for job in held if job.id in self._suspended - self._seen]
        if fresh:
            # None of their calls begins from here on, so waiting controllers may proceed.
            await self._store.write(jobs.see_suspensions(fresh))
            self._seen.update(job.id for job in fresh)
