"""The Conductor engine: a run is a chain of executions there, and so is a lane with messages.

Conductor tracks what is in progress and on which worker; the database holds the truth. What
Conductor loses, or an operator ends there, is restarted from the job queue.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from outrider.domain.ids import RunId, TenantId
from outrider.domain.signals import Signal
from outrider.engines.conductor.messages import (
    LOOK,
    PROCESS,
    Execution,
    WorkOrder,
    correlation_id,
    domain_of,
)
from outrider.engines.conductor.mover import ConductorMover
from outrider.engines.conductor.server import ConductorServer
from outrider.engines.conductor.stuck import StuckExecutions
from outrider.engines.conductor.work_tasks import WorkTasks
from outrider.engines.parts import EngineParts
from outrider.limits.engines import (
    CONDUCTOR_BESIDE_SECONDS,
    CONDUCTOR_CALLS,
    CONDUCTOR_EXECUTIONS_MOST,
    CONDUCTOR_STILL_SECONDS,
)
from outrider.ports.engine import Engine, Jobs, Stalled, Work, WorkKind

PAUSED = "PAUSED"


def make_engine(parts: EngineParts) -> Engine:
    server = ConductorServer(parts.settings, parts.secrets, parts.worker_id, parts.http)
    return ConductorEngine(parts, server)


class ConductorEngine(Engine):
    polls_queue = False

    def __init__(self, parts: EngineParts, server: ConductorServer) -> None:
        self._foundation = parts.foundation
        self._clock = parts.foundation.clock
        self._limits = parts.foundation.limits
        self._settings = parts.settings
        self._server = server
        self._stuck = StuckExecutions(
            server, parts.foundation.clock, parts.settings.conductor_domain, parts.report_stuck
        )
        self._calls = asyncio.Semaphore(CONDUCTOR_CALLS)

    async def check(self) -> None:
        await self._server.is_registered()

    async def register(self) -> Sequence[str]:
        return await self._server.register()

    async def close(self) -> None:
        await self._server.close()

    @asynccontextmanager
    async def worker(self, jobs: Jobs) -> AsyncIterator[ConductorMover]:
        tasks = WorkTasks(self._foundation, self._server, jobs)
        domain = self._settings.conductor_domain
        yield ConductorMover(self._server, tasks, domain, self._limits)

    async def start(self, run: Work) -> None:
        """Conductor takes any number of executions with one correlation id: look first."""
        if not await self.executions(run):
            await self._begin(run)

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:  # noqa: ARG002
        """One that waits is woken; any other looks before it waits."""
        for execution in await self.executions(run):
            if execution.is_parked:
                await self._server.wake(execution)

    async def recover(self, stalled: Sequence[Stalled]) -> Sequence[Stalled]:
        """A failure of one says nothing about the others."""
        found = await self._server.running(
            [correlation_id(each.work) for each in stalled], tasks=True
        )
        answers = await asyncio.gather(
            *(self._recover(each, found.get(correlation_id(each.work), [])) for each in stalled),
            return_exceptions=True,
        )
        failures = [each for each in answers if isinstance(each, BaseException)]
        if failures and len(failures) == len(stalled):
            raise failures[0]
        return [each for each, notified in zip(stalled, answers, strict=True) if notified is True]

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        return f"conductor/{correlation_id(Work(WorkKind.RUN, tenant_id, run_id))}"

    async def executions(self, work: Work) -> list[Execution]:
        """Those not ended, the oldest first."""
        correlation = correlation_id(work)
        found = await self._server.running([correlation], tasks=True)
        return found.get(correlation, [])

    async def _recover(self, stalled: Stalled, executions: Sequence[Execution]) -> bool:
        """Whether it had to be started or woken."""
        async with self._calls:
            going = [each for each in executions if not await self._stuck.was_ended(each, stalled)]
            if not going:
                await self._begin(stalled.work)
                return True
            for execution in going:
                if (told := await self._looked_after(execution, stalled)) is not None:
                    return told
            return await self._begin_beside(stalled.work, going)

    async def _looked_after(self, execution: Execution, stalled: Stalled) -> bool | None:
        """Whether this one had to be woken; None if it is busy with other jobs of the work."""
        if execution.status == PAUSED:
            # Somebody pressed Conductor's own button, which Outrider does not know.
            await self._server.resume(execution)
            return True
        if execution.is_parked:
            await self._server.wake(execution)
            return True
        waited_for = execution.look or execution.jobs.get(stalled.job_id)
        if waited_for is not None:
            if self._stuck.is_overdue(waited_for):
                await self._server.decide(execution)
            return False
        if execution.jobs:
            return None
        # Between two of its tasks, which is Conductor's own business for a moment.
        if self._stuck.is_still(execution, CONDUCTOR_STILL_SECONDS):
            await self._server.decide(execution)
        return False

    async def _begin(self, work: Work, *, beside: bool = False) -> None:
        correlation = correlation_id(work)
        domain = domain_of(self._settings.conductor_domain, work.kind)
        begun = await self._server.start(
            correlation, self._order(work, beside=beside), {LOOK: domain, PROCESS: domain}
        )
        if beside:
            return
        # Two processes started one at the same time: only the older one continues.
        found = await self._server.running([correlation], tasks=False)
        for index, execution in enumerate(found.get(correlation, [])):
            if index and execution.workflow_id == begun:
                await self._server.terminate(execution, "another execution was begun before it")

    def _order(self, work: Work, *, beside: bool = False) -> WorkOrder:
        return WorkOrder(
            work.kind,
            work.id,
            self._settings.conductor_window_jobs,
            self._limits.lease_seconds,
            beside,
        )

    async def _begin_beside(self, work: Work, going: Sequence[Execution]) -> bool:
        """All wait for jobs that a worker has: the rest must not wait for a slow one."""
        dispatched = sum(len(each.jobs) for each in going)
        if dispatched >= self._settings.conductor_window_jobs:
            return False
        if len(going) >= CONDUCTOR_EXECUTIONS_MOST:
            return False
        if not all(self._stuck.is_slow(each, CONDUCTOR_BESIDE_SECONDS) for each in going):
            return False
        await self._begin(work, beside=True)
        return True
