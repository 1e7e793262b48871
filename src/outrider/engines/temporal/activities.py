"""The activities: check the queue, and do one job through the kernel's own processor.

Their exceptions go into Temporal's history, so they carry a type and never a message.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from outrider.domain.ids import JobId
from outrider.domain.states import JobStatus
from outrider.engines.temporal.messages import (
    JOB_FAILED,
    LOOK,
    PROCESS,
    JobOrder,
    JobResult,
    LookOrder,
    QueueView,
)
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions import work
from outrider.ports.engine import Jobs, JobView, WorkKind

JOB_HELD = "JobHeld"


class WorkActivities:
    def __init__(self, foundation: Foundation, processor: Jobs) -> None:
        self._processor = processor
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits

    @activity.defn(name=LOOK)
    async def look(self, order: LookOrder) -> QueueView:
        now = self._clock.now()
        try:
            seen = await self._store.read(
                work.outlook(WorkKind(order.kind), order.work_id, order.most, now)
            )
        except Exception as error:
            raise _nameless(error) from None
        next_in = None if seen.next_at is None else (seen.next_at - now).total_seconds()
        return QueueView(list(seen.due), next_in, seen.over)

    @activity.defn(name=PROCESS)
    async def process(self, order: JobOrder) -> JobResult:
        """Do the job. It ends when the job does, even if cancelled: a running job occupies a slot
        of this worker, and a stopping worker hands it back itself."""
        working = asyncio.create_task(self._processor.process(JobId(order.job_id)))
        while not working.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({working}, timeout=self._limits.heartbeat_seconds)
            activity.heartbeat()
        try:
            return self._result_of(working.result())
        except ApplicationError:
            raise
        except Exception as error:
            raise _nameless(error) from None

    def _result_of(self, state: JobView | None) -> JobResult:
        """Ended, parked or waiting to be woken: a normal result. Held by another worker: Temporal
        retries soon. Failed: the workflow retries when it is due, or when signalled."""
        if state is None or state.status in (JobStatus.COMPLETED, JobStatus.DEAD):
            return JobResult()
        if state.status is JobStatus.LOCKED:
            wait = timedelta(seconds=self._limits.rescue_interval_seconds)
            raise ApplicationError(
                JOB_HELD, type=JOB_HELD, next_retry_delay=wait,
                category=ApplicationErrorCategory.BENIGN,
            )  # fmt: skip
        if state.paused or state.run_at is None:
            return JobResult()
        due_in = (state.run_at - self._clock.now()).total_seconds()
        if state.status is JobStatus.FAILED:
            raise ApplicationError(JOB_FAILED, due_in, type=JOB_FAILED, non_retryable=True)
        return JobResult(due_in)


def _nameless(error: BaseException) -> ApplicationError:
    return ApplicationError(type(error).__name__, type=type(error).__name__)
