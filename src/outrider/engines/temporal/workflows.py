"""The workflow: the jobs of one run, or one lane, in a sliding window of activities.

It decides nothing about a job. It looks into the queue, has what is due processed, sets an alarm
for what is parked, and looks again when it is told to. So it can be told twice, late or out of
order, and an execution that takes over from another needs no memory of it.

Whoever changes what it does in an order that matters has to ask `workflow.patched` first: the
histories in tests/histories are replayed against it.
"""

import asyncio
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

from outrider.engines.temporal.messages import (
    JOB_FAILED,
    LOOK,
    PROCESS,
    STEER,
    WORKFLOW,
    JobOrder,
    JobResult,
    LookOrder,
    QueueView,
    Steer,
    WorkOrder,
)

LOOK_SECONDS = 30
"""How long one look may take."""
JOB_DAYS = 30
"""How long one job may take, with heartbeats all the while; a slow target's can be long."""
SHORTEST_WAIT_SECONDS = 0.1
IDLE_LOOK_SECONDS = 3_600.0
HISTORY_EVENTS_MOST = 10_000
"""Temporal warns at 10,240 events, and ends a workflow at 51,200."""
EVENTS_A_JOB = 8
"""At worst: scheduled, started, ended; a workflow task of its own; an alarm set anew."""
DRAIN_SECONDS = 10
DRAIN_AGAIN_EVENTS = 1_000
RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
)
"""Without an end: how often a job may be tried is for its row to say."""


def begins_nothing_from(window_jobs: int) -> int:
    """How many events a history has when what is under way is waited for, however long it takes."""
    return HISTORY_EVENTS_MOST - EVENTS_A_JOB * window_jobs


@workflow.defn(name=WORKFLOW)
class WorkWorkflow:
    def __init__(self) -> None:
        self._told = True
        self._steers = 0
        self._drain_at = 0
        self._more = False
        self._due: list[str] = []
        self._under_way: set[str] = set()
        self._alarm_at: datetime | None = None
        self._alarm: asyncio.Task[None] | None = None

    @workflow.signal(name=STEER)
    def steer(self, _steer: Steer) -> None:
        """What it says is for those who read the history; the queue says what follows from it."""
        self._told = True
        self._steers += 1

    @workflow.run
    async def run(self, order: WorkOrder) -> None:
        self._drain_at = order.history_events
        while True:
            if self._must_look(order) and await self._look(order) and not self._told:
                break
            if workflow.info().get_current_history_length() >= self._drain_at:
                if await self._comes_to_rest(order):
                    workflow.continue_as_new(order)
                continue
            self._begin(order)
            await workflow.wait_condition(lambda: self._must_look(order) or self._has_room(order))
        await workflow.wait_condition(self._is_at_rest)

    def _must_look(self, order: WorkOrder) -> bool:
        room = len(self._under_way) < order.window_jobs
        return self._told or (self._more and not self._due and room)

    def _has_room(self, order: WorkOrder) -> bool:
        return bool(self._due) and len(self._under_way) < order.window_jobs

    def _is_at_rest(self) -> bool:
        return not self._under_way and workflow.all_handlers_finished()

    async def _comes_to_rest(self, order: WorkOrder) -> bool:
        """Begin nothing until what is under way has ended. While the history has room, a slow job
        is waited for only so long: the others are not to stand still because of it."""
        length = workflow.info().get_current_history_length()
        last = begins_nothing_from(order.window_jobs)
        try:
            wait = None if length >= last else timedelta(seconds=DRAIN_SECONDS)
            await workflow.wait_condition(self._is_at_rest, timeout=wait)
        except TimeoutError:
            self._drain_at = min(length + DRAIN_AGAIN_EVENTS, last)
            return False
        return True

    async def _look(self, order: WorkOrder) -> bool:
        """Whether all of it is over."""
        self._told = False
        # What is under way may not be claimed yet, and then the queue still has it as due.
        most = order.window_jobs + len(self._under_way)
        sight: QueueView = await workflow.execute_local_activity(
            LOOK,
            LookOrder(order.kind, order.work_id, most),
            result_type=QueueView,
            start_to_close_timeout=timedelta(seconds=LOOK_SECONDS),
            retry_policy=RETRY,
        )
        self._more = len(sight.due) == most
        self._due = [job_id for job_id in sight.due if job_id not in self._under_way]
        if sight.next_in_seconds is not None:
            self._set_alarm(sight.next_in_seconds)
        elif not self._under_way and not self._due:
            # Somebody has to wake it, and may have failed to.
            self._set_alarm(IDLE_LOOK_SECONDS)
        return sight.over

    def _begin(self, order: WorkOrder) -> None:
        while self._has_room(order):
            job_id = self._due.pop(0)
            self._under_way.add(job_id)
            asyncio.create_task(self._process(job_id, order))  # noqa: RUF006 - the set knows it

    async def _process(self, job_id: str, order: WorkOrder) -> None:
        steers = self._steers
        try:
            fate: JobResult = await workflow.execute_activity(
                PROCESS,
                JobOrder(job_id),
                activity_id=job_id,
                result_type=JobResult,
                start_to_close_timeout=timedelta(days=JOB_DAYS),
                heartbeat_timeout=timedelta(seconds=order.lease_seconds),
                retry_policy=RETRY,
            )
        except ActivityError as error:
            fate = _fate_of_failure(error)
        self._under_way.discard(job_id)
        if fate.due_in_seconds is not None:
            self._set_alarm(fate.due_in_seconds)
        elif self._steers > steers or not (self._under_way or self._due):
            # A look that came meanwhile left this job out.
            self._told = True

    def _set_alarm(self, seconds: float) -> None:
        """One timer for all that is parked: when the first of it is due, all of it is looked at."""
        wait = timedelta(seconds=max(seconds, SHORTEST_WAIT_SECONDS))
        at = workflow.now() + wait
        if self._alarm is not None and self._alarm_at is not None and self._alarm_at <= at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = at
        self._alarm = asyncio.create_task(self._ring(wait))

    async def _ring(self, wait: timedelta) -> None:
        await workflow.sleep(wait)
        self._alarm, self._told = None, True


def _fate_of_failure(error: ActivityError) -> JobResult:
    """A job that failed is due again when it says so; whatever else ended it, the queue knows."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == JOB_FAILED:
        return JobResult(float(cause.details[0]))
    return JobResult(SHORTEST_WAIT_SECONDS)
