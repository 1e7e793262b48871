"""The lease rescuer: recovers the jobs of dead workers, and requeues jobs that have become due.

Jobs of dead processes on this host are freed at once; otherwise it goes by leases, and by the
contract's five minutes whatever a lease says.
"""

from collections.abc import Awaitable, Callable
from datetime import timedelta

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import WorkerId
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import jobs, lost_jobs
from outrider.ports.call_journal import CallJournals

log = structlog.get_logger()

IsDead = Callable[[str], bool]
"""Whether the worker with that id is known to be dead; False if that cannot be known."""


async def _is_set() -> None:
    """For a clock that nobody else can set."""


class LeaseRescuer:
    def __init__(
        self,
        foundation: Foundation,
        journals: CallJournals,
        worker_id: WorkerId,
        is_dead: IsDead,
        is_steady: Callable[[], bool] = lambda: True,
        set_clock: Callable[[], Awaitable[None]] = _is_set,
    ) -> None:
        self._store = foundation.store
        self._journals = journals
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._worker_id = worker_id
        self._limits = foundation.limits
        self._is_dead = is_dead
        self._is_steady = is_steady
        self._set_clock = set_clock
        self._store_was_away_at: float | None = None

    async def free_the_dead(self) -> int:
        """Take back the jobs of processes that are provably dead. If such a process recorded which
        calls it had begun, its other open attempts were never called."""
        holders = await self._store.read(lost_jobs.lock_holders())
        dead = [holder for holder in holders if self._is_dead(holder)]
        if not dead:
            return 0
        for worker_id in dead:
            begun = self._journals.begun_by(worker_id)
            if begun is not None:
                script = lost_jobs.take_back_unbegun(worker_id, begun, self._clock.now())
                taken_back = await self._store.write(script)
                log.info("calls_never_begun", worker=worker_id, items=taken_back, begun=len(begun))
        rescued = await self._store.write(
            lost_jobs.rescue_from(dead, self._worker_id, self._ids, self._clock.now())
        )
        for worker_id in dead:
            self._journals.forget(worker_id)
        log.info("jobs_rescued", jobs=rescued, why="worker_died")
        return rescued

    async def rescue_once(self) -> int:
        freed = await self.free_the_dead()
        # Had the database's clock been set back while this process was frozen, the leases of others
        # would look expired to it.
        await self._set_clock()
        now = self._clock.now()
        if not self._may_judge_leases():
            return freed + await self._store.write(jobs.requeue(now))
        stale_before = now - timedelta(seconds=self._limits.stale_lock_seconds)
        rescued = await self._store.write(
            lost_jobs.rescue_expired(stale_before, self._worker_id, self._ids, now)
        )
        if rescued:
            log.info("jobs_rescued", jobs=rescued, why="lease_expired")
        return freed + rescued + await self._store.write(jobs.requeue(now))

    def _may_judge_leases(self) -> bool:
        """Whether a living worker has had time to extend its lease: the database was usable, and
        its clock ran evenly, for longer than a lease lasts."""
        away_at = self._store_was_away_at
        if away_at is not None:
            if self._clock.monotonic() - away_at <= self._limits.lease_seconds:
                return False
            self._store_was_away_at = None
        return self._is_steady()

    async def run(self) -> None:
        """The loop of the role; runs until cancelled."""
        while True:
            try:
                await self.rescue_once()
            except StoreUnavailable as error:
                self._store_was_away_at = self._clock.monotonic()
                log.warning("rescue_failed", error=error.message)
            except OSError as error:
                # For example out of file handles: try again soon.
                log.warning("rescue_failed", error=str(error))
            await self._clock.sleep(self._limits.rescue_interval_seconds)
