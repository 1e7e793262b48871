"""The Temporal engine: a run is a workflow there, and so is a lane while it has messages.

Temporal tracks what is in progress and on which worker; the database holds the truth. What Temporal
loses, or an operator ends there, is restarted from the job queue.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outrider.domain.errors import OutriderError
from outrider.domain.ids import RunId, TenantId
from outrider.domain.signals import Signal
from outrider.engines.parts import EngineParts, ReportStuck
from outrider.engines.temporal.activities import WorkActivities
from outrider.engines.temporal.connection import TemporalConnection, unavailable
from outrider.engines.temporal.messages import STEER, WORKFLOW, Steer, WorkOrder
from outrider.engines.temporal.mover import TemporalMover, task_queue
from outrider.engines.temporal.workflows import begins_nothing_from
from outrider.kernel.foundation import Foundation
from outrider.limits.engines import TEMPORAL_CALLS, TEMPORAL_HISTORY_EVENTS, TEMPORAL_TASK_FAILURES
from outrider.ports.engine import Engine, Jobs, Stalled, Work, WorkKind
from outrider.settings import Settings

log = structlog.get_logger()

STALLED = "STALLED"
"""Not an operator's signal to a run: its due work was found without a worker."""


def workflow_id(work: Work) -> str:
    """Made of ids alone: the list of workflows reveals nothing about a person."""
    return f"outrider/{work.tenant_id}/{work.kind.value}/{work.id}"


def make_engine(parts: EngineParts) -> Engine:
    connection = TemporalConnection(parts.settings, parts.secrets, parts.worker_id)
    return TemporalEngine(parts.foundation, connection, parts.settings, parts.report_stuck)


class TemporalEngine(Engine):
    polls_queue = False

    def __init__(
        self,
        foundation: Foundation,
        connection: TemporalConnection,
        settings: Settings,
        report_stuck: ReportStuck | None = None,
    ) -> None:
        self._foundation = foundation
        self._limits = foundation.limits
        self._connection = connection
        self._settings = settings
        self._report_stuck = report_stuck
        self._calls = asyncio.Semaphore(TEMPORAL_CALLS)

    async def client(self) -> Client:
        return await self._connection.client()

    async def check(self) -> None:
        await self._connection.reach()

    @asynccontextmanager
    async def worker(self, jobs: Jobs) -> AsyncIterator[TemporalMover]:
        yield TemporalMover(
            self._connection,
            WorkActivities(self._foundation, jobs),
            self._settings.temporal_task_queue,
            self._limits,
        )

    async def start(self, run: Work) -> None:
        client = await self.client()
        with unavailable():
            try:
                await client.start_workflow(
                    WORKFLOW, self._order(run), id=workflow_id(run), task_queue=self._queue_of(run),
                    id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                )  # fmt: skip
            except WorkflowAlreadyStartedError:
                return

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:
        client = await self.client()
        handle = client.get_workflow_handle(workflow_id(run))
        with unavailable():
            try:
                await handle.signal(STEER, Steer(signal.value, step_id))
            except RPCError as error:
                # It has ended, or was never started; the queue says which.
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise

    async def recover(self, stalled: Sequence[Stalled]) -> Sequence[Stalled]:
        """A failure of one says nothing about the others."""
        client = await self.client()
        answers = await asyncio.gather(
            *(self._recover(client, each) for each in stalled), return_exceptions=True
        )
        failures = [each for each in answers if isinstance(each, BaseException)]
        if failures and len(failures) == len(stalled):
            with unavailable():
                raise failures[0]
        return [each for each, notified in zip(stalled, answers, strict=True) if notified is True]

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        return f"temporal/{workflow_id(Work(WorkKind.RUN, tenant_id, run_id))}"

    async def _recover(self, client: Client, stalled: Stalled) -> bool:
        """Whether it had to be signalled."""
        work = stalled.work
        async with self._calls:
            if await self._is_waited_for(client, stalled):
                return False
            await client.start_workflow(
                WORKFLOW, self._order(work), id=workflow_id(work), task_queue=self._queue_of(work),
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                start_signal=STEER, start_signal_args=[Steer(STALLED)],
            )  # fmt: skip
            return True

    async def _is_waited_for(self, client: Client, stalled: Stalled) -> bool:
        """Its workflow has already dispatched the job and waits for a worker, has no free slot, has
        yet to check, or is so long that it starts nothing until its dispatched jobs have ended.
        Another signal would only lengthen it."""
        try:
            found = await client.get_workflow_handle(workflow_id(stalled.work)).describe()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return False
            raise
        if found.status is not WorkflowExecutionStatus.RUNNING:
            return False
        # This execution, not one that was started since.
        seen = client.get_workflow_handle(found.id, run_id=found.run_id)
        if await self._is_out_of_reach(client, found.task_queue, stalled.work):
            await seen.terminate("no worker polls its task queue")
            return False
        raw = found.raw_description
        failed = raw.pending_workflow_task.attempt - 1
        if failed >= TEMPORAL_TASK_FAILURES:
            # Its input or history is incompatible with today's code.
            await self._tell_of(stalled, failed)
            await seen.terminate(f"its workflow task failed {failed} times")
            return False
        window_jobs = self._settings.temporal_window_jobs
        given_out = {activity.activity_id for activity in raw.pending_activities}
        return (
            stalled.job_id in given_out
            or len(given_out) >= window_jobs
            or bool(given_out and found.history_length >= begins_nothing_from(window_jobs))
            or raw.HasField("pending_workflow_task")
        )

    async def _tell_of(self, stalled: Stalled, failed: int) -> None:
        """Before it is ended: afterwards nothing would show that it was stuck. A failing
        notification must not hold up the work."""
        if self._report_stuck is None:
            return
        try:
            await self._report_stuck(stalled, failed)
        except OutriderError as error:
            log.error("stuck_workflow_not_told", work_id=stalled.work.id, error=error.message)

    async def _is_out_of_reach(self, client: Client, queue: str, work: Work) -> bool:
        """It is on another task queue that has had no poller for minutes: the setting was changed
        while it was in progress, and it would wait for ever."""
        if queue in (self._queue_of(work), self._settings.temporal_task_queue):
            return False
        asked = DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
        )
        return not (await client.workflow_service.describe_task_queue(asked)).pollers

    def _queue_of(self, work: Work) -> str:
        return task_queue(self._settings.temporal_task_queue, work.kind)

    def _order(self, work: Work) -> WorkOrder:
        return WorkOrder(
            work.kind.value,
            work.id,
            self._settings.temporal_window_jobs,
            TEMPORAL_HISTORY_EVENTS,
            self._limits.lease_seconds,
        )
