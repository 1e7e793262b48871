"""The workflow: the jobs of one run, or one lane, in a sliding window of activities.

It decides nothing about a job. It checks the queue, has due jobs processed, sets a timer for parked
ones, and checks again when signalled. So signals may be repeated, late or out of order, and a
successor execution needs no state from its predecessor.

A change to the order of its commands needs `workflow.patched`: the histories in tests/histories are
replayed against it.
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
"""How long one queue check may take."""
JOB_DAYS = 30
"""How long one job may take, with heartbeats throughout; a slow target's can be long."""
SHORTEST_WAIT_SECONDS = 0.1
IDLE_LOOK_SECONDS = 3_600.0
HISTORY_EVENTS_MOST = 10_000
"""Temporal warns at 10,240 events, and ends a workflow at 51,200."""
EVENTS_A_JOB = 8
"""At worst: scheduled, started, ended; its own workflow task; a timer reset."""
DRAIN_SECONDS = 10
DRAIN_AGAIN_EVENTS = 1_000
RETRY = RetryPolicy(
    initial_interval=timedelta(seconds=1),
    backoff_coefficient=2.0,
    maximum_interval=timedelta(seconds=30),
)
"""Unlimited: the job's row says how often it may be tried."""


def begins_nothing_from(window_jobs: int) -> int:
    """The history length at which all running jobs are awaited, however long they take."""
    return HISTORY_EVENTS_MOST - EVENTS_A_JOB * window_jobs


@workflow.defn(name=WORKFLOW)
class WorkWorkflow:
    def __init__(self) -> None:
        self._is_notified = True
        self._steers = 0
        self._drain_at = 0
        self._more = False
        self._due: list[str] = []
        self._under_way: set[str] = set()
        self._alarm_at: datetime | None = None
        self._alarm: asyncio.Task[None] | None = None

    @workflow.signal(name=STEER)
    def steer(self, _steer: Steer) -> None:
        """The content is for readers of the history; the queue has the consequences."""
        self._is_notified = True
        self._steers += 1

    @workflow.run
    async def run(self, order: WorkOrder) -> None:
        self._drain_at = order.history_events
        while True:
            if self._must_look(order) and await self._look(order) and not self._is_notified:
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
        return self._is_notified or (self._more and not self._due and room)

    def _has_room(self, order: WorkOrder) -> bool:
        return bool(self._due) and len(self._under_way) < order.window_jobs

    def _is_at_rest(self) -> bool:
        return not self._under_way and workflow.all_handlers_finished()

    async def _comes_to_rest(self, order: WorkOrder) -> bool:
        """Start nothing until the running jobs have ended. While the history has room, a slow job
        is awaited only for a limited time, so that the others are not blocked by it."""
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
        """Whether all of it is finished."""
        self._is_notified = False
        # A dispatched job may not be claimed yet, and then the queue still reports it as due.
        most = order.window_jobs + len(self._under_way)
        view: QueueView = await workflow.execute_local_activity(
            LOOK,
            LookOrder(order.kind, order.work_id, most),
            result_type=QueueView,
            start_to_close_timeout=timedelta(seconds=LOOK_SECONDS),
            retry_policy=RETRY,
        )
        self._more = len(view.due) == most
        self._due = [job_id for job_id in view.due if job_id not in self._under_way]
        if view.next_in_seconds is not None:
            self._set_alarm(view.next_in_seconds)
        elif not self._under_way and not self._due:
            # It waits to be woken, and the wake-up may have been lost.
            self._set_alarm(IDLE_LOOK_SECONDS)
        return view.over

    def _begin(self, order: WorkOrder) -> None:
        while self._has_room(order):
            job_id = self._due.pop(0)
            self._under_way.add(job_id)
            asyncio.create_task(self._process(job_id, order))  # noqa: RUF006 - the set knows it

    async def _process(self, job_id: str, order: WorkOrder) -> None:
        steers = self._steers
        try:
            result: JobResult = await workflow.execute_activity(
                PROCESS,
                JobOrder(job_id),
                activity_id=job_id,
                result_type=JobResult,
                start_to_close_timeout=timedelta(days=JOB_DAYS),
                heartbeat_timeout=timedelta(seconds=order.lease_seconds),
                retry_policy=RETRY,
            )
        except ActivityError as error:
            result = _result_of_failure(error)
        self._under_way.discard(job_id)
        if result.due_in_seconds is not None:
            self._set_alarm(result.due_in_seconds)
        elif self._steers > steers or not (self._under_way or self._due):
            # A queue check in the meantime left this job out.
            self._is_notified = True

    def _set_alarm(self, seconds: float) -> None:
        """One timer for all parked jobs: when the first is due, all of them are checked."""
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
        self._alarm, self._is_notified = None, True


def _result_of_failure(error: ActivityError) -> JobResult:
    """A failed job says when it is due again; for any other ending the queue knows."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == JOB_FAILED:
        return JobResult(float(cause.details[0]))
    return JobResult(SHORTEST_WAIT_SECONDS)
