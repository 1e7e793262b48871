"""The tasks: check the queue, and do one job through the kernel's own processor.

A task never fails: it is completed, or given back to be offered again. So whether a job is tried
again is decided by its row alone, and an execution does not grow by attempts.
"""

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
import structlog

from outrider.domain.errors import EngineUnavailable
from outrider.domain.ids import JobId
from outrider.domain.states import JobStatus
from outrider.engines.conductor.definitions import task_definition
from outrider.engines.conductor.messages import (
    INVALID_ORDER,
    OVER,
    PROCESS,
    WAIT,
    WORK,
    JobOrder,
    TaskRecord,
    WorkOrder,
    whole_seconds,
)
from outrider.engines.conductor.server import ConductorServer
from outrider.kernel.foundation import Foundation
from outrider.kernel.transactions.work import Outlook, outlook
from outrider.limits.engines import (
    CONDUCTOR_HOLD_SECONDS,
    CONDUCTOR_IDLE_LOOK_SECONDS,
    CONDUCTOR_REPORT_RETRY_SECONDS,
    CONDUCTOR_RETRY_SECONDS,
)
from outrider.ports.engine import Jobs, JobView

log = structlog.get_logger()

JOB_HELD = "JobHeld"


class WorkTasks:
    def __init__(self, foundation: Foundation, server: ConductorServer, jobs: Jobs) -> None:
        self._server = server
        self._jobs = jobs
        self._store = foundation.store
        self._clock = foundation.clock
        self._limits = foundation.limits

    async def look(self, task: TaskRecord) -> None:
        try:
            order = msgspec.convert(task.input_data.get("order"), WorkOrder)
            seen = await self._seen(order)
            if not seen.due and self._is_soon(seen):
                await asyncio.sleep(self._seconds_until(seen))
                seen = await self._seen(order)
        except msgspec.ValidationError:
            await self._give_back(task, INVALID_ORDER)
        except Exception as error:
            await self._failed(task, error)
        else:
            await self._report(task, self._what_follows(order, seen))

    async def process(self, task: TaskRecord) -> None:
        """Do the job. It ends when the job does: a stopping worker hands it back itself."""
        try:
            order = msgspec.convert(task.input_data, JobOrder)
            standing = await self._processed(task, JobId(order.job_id))
        except msgspec.ValidationError:
            await self._give_back(task, INVALID_ORDER)
        except Exception as error:
            await self._failed(task, error)
        else:
            if standing is not None and standing.status is JobStatus.LOCKED:
                await self._give_back(task, JOB_HELD, self._limits.rescue_interval_seconds)
            else:
                await self._report(task, _outcome(standing))

    async def _processed(self, task: TaskRecord, job_id: JobId) -> JobView | None:
        """Conductor's lease on the task is extended as often as the database's on the job."""
        working = asyncio.create_task(self._jobs.process(job_id))
        while not working.done():
            await asyncio.wait({working}, timeout=self._limits.heartbeat_seconds)
            if not working.done():
                await self._beat(task)
        return working.result()

    async def return_unbegun(self, task: TaskRecord) -> None:
        with suppress(EngineUnavailable):
            await self._server.give_back(task, 0)

    async def _seen(self, order: WorkOrder) -> Outlook:
        now = self._clock.now()
        return await self._store.read(outlook(order.kind, order.work_id, order.window_jobs, now))

    def _seconds_until(self, seen: Outlook) -> float:
        """Jobs that became due since the look are treated as due in a moment."""
        if seen.next_at is None:
            return CONDUCTOR_IDLE_LOOK_SECONDS
        return max(0.0, (seen.next_at - self._clock.now()) / timedelta(seconds=1))

    def _is_soon(self, seen: Outlook) -> bool:
        return seen.next_at is not None and self._seconds_until(seen) < CONDUCTOR_HOLD_SECONDS

    def _what_follows(self, order: WorkOrder, seen: Outlook) -> dict[str, Any]:
        if seen.due:
            definition = task_definition(PROCESS, order.lease_seconds)
            tasks = [
                {
                    "name": PROCESS,
                    "taskReferenceName": job_id,
                    "type": "SIMPLE",
                    "taskDefinition": definition,
                }
                for job_id in seen.due
            ]
            inputs = {job_id: {"jobId": job_id} for job_id in seen.due}
            return {"next": WORK, "tasks": tasks, "inputs": inputs}
        if seen.over or order.beside:
            return {"next": OVER}
        return {"next": WAIT, "wait": f"{int(self._seconds_until(seen))} seconds"}

    async def _beat(self, task: TaskRecord) -> None:
        """A beat that is lost is followed by others; the job's own lease is in the database."""
        try:
            await self._server.extend(task)
        except EngineUnavailable as error:
            log.debug("conductor_lease_not_extended", error=error.message)

    async def _report(self, task: TaskRecord, output: dict[str, Any]) -> None:
        """Repeated for as long as Conductor waits; if it never gets the result, the next worker
        finds it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(max(1, task.response_timeout_seconds)):
                while True:
                    try:
                        return await self._server.complete(task, output)
                    except EngineUnavailable as error:
                        log.debug("conductor_task_not_reported", error=error.message)
                    await asyncio.sleep(CONDUCTOR_REPORT_RETRY_SECONDS)

    async def _give_back(
        self, task: TaskRecord, why: str, seconds: float = CONDUCTOR_RETRY_SECONDS
    ) -> None:
        try:
            await self._server.give_back(task, whole_seconds(seconds), why)
        except EngineUnavailable as error:
            log.debug("conductor_task_not_reported", error=error.message)

    async def _failed(self, task: TaskRecord, error: Exception) -> None:
        """Conductor is given the kind of error and never its text."""
        log.warning("conductor_task_failed", task=task.task_type, error=str(error))
        await self._give_back(task, type(error).__name__)


def _outcome(standing: JobView | None) -> dict[str, str]:
    """For readers of Conductor's pages: the queue has the consequences."""
    return {} if standing is None else {"status": standing.status.value}
