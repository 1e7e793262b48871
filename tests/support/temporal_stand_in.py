"""The workflow on a real Temporal server, with a queue in memory in place of ours.

What a workflow was told, when, and how long its history became can be said exactly here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from uuid import uuid4

from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from outrider.engines.temporal.messages import (
    LOOK,
    PROCESS,
    WORKFLOW,
    JobOrder,
    JobResult,
    LookOrder,
    QueueView,
    WorkOrder,
)
from outrider.engines.temporal.workflows import WorkWorkflow

PATIENCE_SECONDS = 90
LOOK_SECONDS = 0.01
PARKED_SECONDS = 0.2
SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
ENDED = (EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED, EventType.EVENT_TYPE_ACTIVITY_TASK_FAILED)


class StandIn:
    """A queue in memory: its jobs end at once, are held, or are parked once before that."""

    def __init__(self, job_ids: Sequence[str], parked: Sequence[str] = ()) -> None:
        self.waiting = dict.fromkeys(job_ids, 0.0)
        self.parked = set(parked)
        self.begun: list[str] = []
        self.processed: list[str] = []
        self.looks = 0
        self.is_closed = True
        """Nothing more will come: when nothing waits either, it is over."""
        self._held: dict[str, asyncio.Event] = {}

    def hold(self, job_id: str) -> asyncio.Event:
        """The job is under way until this is set."""
        return self._held.setdefault(job_id, asyncio.Event())

    @activity.defn(name=LOOK)
    async def look(self, order: LookOrder) -> QueueView:
        self.looks += 1
        now = asyncio.get_running_loop().time()
        due = [job_id for job_id, at in self.waiting.items() if at <= now][: order.most]
        later = [at - now for at in self.waiting.values() if at > now]
        return QueueView(due, min(later, default=None), self.is_closed and not self.waiting)

    @activity.defn(name=PROCESS)
    async def process(self, order: JobOrder) -> JobResult:
        del self.waiting[order.job_id]
        self.begun.append(order.job_id)
        if order.job_id in self._held:
            await self._held[order.job_id].wait()
        if order.job_id in self.waiting:
            # Given back, and due again by now, of which its answer knows nothing.
            return JobResult()
        if order.job_id in self.parked:
            self.parked.discard(order.job_id)
            self.waiting[order.job_id] = asyncio.get_running_loop().time() + PARKED_SECONDS
            return JobResult(PARKED_SECONDS)
        self.processed.append(order.job_id)
        return JobResult()


@asynccontextmanager
async def begun_with(
    client: Client,
    stand_in: StandIn,
    window_jobs: int,
    history_events: int,
    *,
    sandboxed: bool = True,
    patience_seconds: float = PATIENCE_SECONDS,
) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """Outside the sandbox a test can make the workflow's own waits shorter."""
    queue = f"stand-in-{uuid4()}"
    activities: list[Callable[..., Any]] = [stand_in.look, stand_in.process]
    order = WorkOrder("run", str(uuid4()), window_jobs, history_events, lease_seconds=30)
    runner = SandboxedWorkflowRunner() if sandboxed else UnsandboxedWorkflowRunner()
    async with (
        Worker(
            client, task_queue=queue, workflows=[WorkWorkflow], activities=activities,
            workflow_runner=runner,
        ),
        asyncio.timeout(patience_seconds),
    ):  # fmt: skip
        yield await client.start_workflow(WORKFLOW, order, id=f"test/{queue}", task_queue=queue)


async def until_described(
    handle: WorkflowHandle[Any, Any], reached: Callable[[WorkflowExecutionDescription], bool]
) -> WorkflowExecutionDescription:
    """The latest execution, once it is as wanted and has seen all that it was told."""
    while True:
        found = await handle.describe()
        if not found.raw_description.HasField("pending_workflow_task") and reached(found):
            return found
        await asyncio.sleep(LOOK_SECONDS)


def given_out(found: WorkflowExecutionDescription) -> set[str]:
    """The jobs that are with workers, or wait for one."""
    return {each.activity_id for each in found.raw_description.pending_activities}


class Execution(NamedTuple):
    size_bytes: int
    events: list[HistoryEvent]

    @property
    def most_pending(self) -> int:
        """How many activities the server had open at once."""
        pending = most = 0
        for event in self.events:
            pending += (event.event_type == SCHEDULED) - (event.event_type in ENDED)
            most = max(most, pending)
        assert pending == 0, "an execution that ended left something behind"
        return most

    @property
    def timers_seconds(self) -> list[float]:
        """How long each was set for, in their order."""
        return [
            event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta().total_seconds()
            for event in self.events
            if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED
        ]


async def chain(client: Client, first: WorkflowHandle[Any, Any]) -> list[Execution]:
    """Every execution, from the first to the last."""
    found = []
    run_id = first.first_execution_run_id
    while run_id:
        handle = client.get_workflow_handle(first.id, run_id=run_id)
        events = list((await handle.fetch_history()).events)
        info = (await handle.describe()).raw_description.workflow_execution_info
        assert info.history_length == len(events)
        found.append(Execution(info.history_size_bytes, events))
        last = events[-1].workflow_execution_continued_as_new_event_attributes
        run_id = last.new_execution_run_id
    return found
