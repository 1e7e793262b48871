"""Executions that cannot go on: found when their run's work is due, reported, ended, restarted."""

import structlog

from outrider.domain.errors import OutriderError
from outrider.engines.conductor.messages import (
    INVALID_ORDER,
    LOOK,
    PROCESS,
    Execution,
    TaskRecord,
    domain_of,
)
from outrider.engines.conductor.server import MILLISECONDS, ConductorServer
from outrider.engines.parts import ReportStuck
from outrider.limits.engines import (
    CONDUCTOR_POLLER_SECONDS,
    CONDUCTOR_STILL_SECONDS,
    CONDUCTOR_TASK_FAILURES,
)
from outrider.ports.clock import Clock
from outrider.ports.engine import Stalled

log = structlog.get_logger()

RESTARTED_AFTER = 10 * CONDUCTOR_STILL_SECONDS
OURS = frozenset({LOOK, PROCESS})
CONTAINERS = frozenset({"JOIN", "FORK", "SWITCH"})
"""Tasks that wait for others and never end on their own."""


class StuckExecutions:
    def __init__(
        self, server: ConductorServer, clock: Clock, domain: str, report: ReportStuck | None
    ) -> None:
        self._server = server
        self._clock = clock
        self._domain = domain
        self._report = report

    async def was_ended(self, execution: Execution, stalled: Stalled) -> bool:
        """Ends it if it is stuck. Whatever it had dispatched is due again, or held by a worker."""
        failures = _unreadable(execution)
        if failures >= CONDUCTOR_TASK_FAILURES:
            return await self._end(execution, stalled, failures, "its tasks cannot be read")
        if not self._can_move(execution) and self.is_still(execution, RESTARTED_AFTER):
            return await self._end(execution, stalled, 0, "none of its tasks can end")
        foreign = self._foreign_task(execution, stalled)
        if foreign is not None and await self._is_polled_by_nobody(foreign):
            return await self._end(execution, stalled, 0, "no worker polls for its tasks")
        return False

    def is_overdue(self, task: TaskRecord) -> bool:
        """Its worker has been silent for longer than it may, and Conductor has yet to notice."""
        allowed = task.response_timeout_seconds * MILLISECONDS
        return task.status == "IN_PROGRESS" and self._age(task.update_time) > allowed > 0

    def is_still(self, execution: Execution, seconds: float) -> bool:
        latest = max((task.update_time for task in execution.tasks), default=0)
        changed = max(latest, execution.create_time)
        return self._age(changed) > seconds * MILLISECONDS

    def is_slow(self, execution: Execution, seconds: float) -> bool:
        """None of its tasks has ended for that long, though workers may be at them."""
        latest = max((task.end_time for task in execution.tasks), default=0)
        return self._age(max(latest, execution.create_time)) > seconds * MILLISECONDS

    def _age(self, at: int) -> float:
        return self._clock.now().timestamp() * MILLISECONDS - at

    def _can_move(self, execution: Execution) -> bool:
        return any(task.task_type not in CONTAINERS for task in execution.open_tasks)

    def _foreign_task(self, execution: Execution, stalled: Stalled) -> TaskRecord | None:
        """One that waits for a worker, but not for one of this release and this domain."""
        domain = domain_of(self._domain, stalled.work.kind)
        for task in execution.open_tasks:
            is_ours = task.task_type in OURS and task.domain == domain
            waits = task.status == "SCHEDULED" and task.task_type.startswith("outrider_")
            if waits and not is_ours:
                return task
        return None

    async def _is_polled_by_nobody(self, task: TaskRecord) -> bool:
        polled_at = await self._server.polled_at(task.task_type, task.domain)
        return self._age(polled_at) > CONDUCTOR_POLLER_SECONDS * MILLISECONDS

    async def _end(
        self, execution: Execution, stalled: Stalled, failures: int, reason: str
    ) -> bool:
        """Reported before it is ended: afterwards nothing would show that it was stuck. A failing
        report must not hold up the work."""
        if self._report is not None:
            try:
                await self._report(stalled, failures)
            except OutriderError as error:
                log.error("stuck_workflow_not_told", work_id=stalled.work.id, error=error.message)
        await self._server.terminate(execution, reason)
        return True


def _unreadable(execution: Execution) -> int:
    """How often one of its tasks was given back because its input cannot be read."""
    return max(
        (
            task.poll_count
            for task in execution.open_tasks
            if task.reason_for_incompletion == INVALID_ORDER
        ),
        default=0,
    )
