"""The job releaser: decides what happens to a job that this worker could not finish.

It is given back without loss while the database is unavailable, fails and is tried again if its
handler raised, and is given up after its last attempt. If not even that can be written, its lease
expires.
"""

from datetime import timedelta

import structlog

from outrider.domain.errors import (
    ArtifactsUnavailable,
    StoreError,
    StoreRefused,
    StoreUnavailable,
)
from outrider.domain.ids import WorkerId
from outrider.domain.retry import JOB
from outrider.kernel.delivery.campaign_delivery import CampaignDelivery
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.budgeted_store import BudgetExceeded
from outrider.kernel.transactions import jobs, lost_jobs
from outrider.kernel.transactions.claims import Claim, ClaimedJob
from outrider.kernel.transactions.settlement import give_up_job
from outrider.ports.call_journal import CallJournal

log = structlog.get_logger()


class JobReleaser:
    def __init__(
        self,
        foundation: Foundation,
        delivery: CampaignDelivery,
        journal: CallJournal,
        worker_id: WorkerId,
    ) -> None:
        self._store = foundation.store
        self._delivery = delivery
        self._journal = journal
        self._clock = foundation.clock
        self._ids = foundation.ids
        self._limits = foundation.limits
        self._worker_id = worker_id

    async def raised(self, job: Claim, error: Exception) -> None:
        """Processing it raised this."""
        cause = _first(error)
        if _is_away(cause):
            log.warning("job_waits_for_store", job_id=job.id, error=str(cause))
            await self._give_back(job)
            return
        log.exception("job_failed", job_id=job.id, run_id=job.run_id)
        error_text = f"{type(cause).__name__}: {cause}"
        if not await self._gave_up(job, cause, error_text):
            await self.fail(job, error_text)

    async def lease_lost(self, job: Claim) -> None:
        log.warning("lease_lost", job_id=job.id)
        await self._release_lost(job)

    async def fail(self, job: Claim, error: str) -> None:
        """Uses up one of the job's attempts. If even that cannot be written, its lease expires."""
        now = self._clock.now()
        delay = JOB.delay_seconds(job.attempts + 1, jitter=self._ids.jitter())
        try:
            await self._store.write(
                lost_jobs.fail(
                    job, error, now + timedelta(seconds=delay), self._worker_id, self._ids, now
                )
            )
            self._journal.forget(job.id, job.fence)
        except StoreError as lost:
            log.warning("job_left_to_its_lease", job_id=job.id, error=lost.message)

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
            self._journal.forget(job.id, job.fence)
            return gave_up
        except StoreUnavailable as lost:
            log.warning("job_left_to_its_lease", job_id=job.id, error=lost.message)
            return True
        except Exception:
            log.exception("job_cannot_be_wound_up", job_id=job.id)
        script = give_up_job(job, error, self._worker_id, self._ids, self._clock.now())
        try:
            gave_up = await self._store.write(script)
            self._journal.forget(job.id, job.fence)
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
                self._journal.forget(job.id, job.fence)
                return
            except StoreUnavailable as error:
                log.warning("job_waits_for_store", job_id=job.id, error=error.message)
            except StoreError as error:
                log.warning("job_left_to_its_lease", job_id=job.id, error=error.message)
                return
        log.warning("job_left_to_its_lease", job_id=job.id, error="the store is unavailable")


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
