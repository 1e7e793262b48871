"""A worker's share on Conductor: it polls for looks and jobs, as many as it has places for."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from outrider.domain.errors import EngineUnavailable
from outrider.engines.conductor.messages import LOOK, PROCESS, TaskRecord, domain_of
from outrider.engines.conductor.server import ConductorServer
from outrider.engines.conductor.work_tasks import WorkTasks
from outrider.limits.engines import (
    CONDUCTOR_LOOKS,
    CONDUCTOR_POLL_SECONDS,
    CONDUCTOR_RETRY_SECONDS,
    CONDUCTOR_STOP_SECONDS,
)
from outrider.limits.kernel import Limits
from outrider.ports.engine import WorkKind

log = structlog.get_logger()

Handler = Callable[[TaskRecord], Awaitable[None]]


class ConductorMover:
    def __init__(
        self, server: ConductorServer, tasks: WorkTasks, domain: str, limits: Limits
    ) -> None:
        self._server = server
        self._tasks = tasks
        self._domain = domain
        self._limits = limits
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop polling; running jobs are finished or handed back first."""
        self._stopping.set()

    async def run(self) -> None:
        if not await self._server.is_registered():
            await self._server.register()
        jobs = {
            WorkKind.RUN: self._limits.jobs_in_parallel,
            WorkKind.LANE: self._limits.lanes_in_parallel,
        }
        async with asyncio.TaskGroup() as group:
            for kind, places in jobs.items():
                domain = domain_of(self._domain, kind)
                group.create_task(self._serve(PROCESS, domain, places, self._tasks.process))
                group.create_task(self._serve(LOOK, domain, CONDUCTOR_LOOKS, self._tasks.look))

    async def _serve(self, task_type: str, domain: str, places: int, handle: Handler) -> None:
        busy: set[asyncio.Task[None]] = set()
        stopped = asyncio.create_task(self._stopping.wait())
        while not self._stopping.is_set():
            if len(busy) >= places:
                await asyncio.wait({*busy, stopped}, return_when=asyncio.FIRST_COMPLETED)
                continue
            for task in await self._poll(task_type, domain, places - len(busy)):
                if self._stopping.is_set():
                    await self._tasks.return_unbegun(task)
                    continue
                doing = asyncio.create_task(self._do(handle, task))
                busy.add(doing)
                doing.add_done_callback(busy.discard)
        stopped.cancel()
        if busy:
            await asyncio.wait(busy, timeout=CONDUCTOR_STOP_SECONDS)

    async def _poll(self, task_type: str, domain: str, most: int) -> list[TaskRecord]:
        """All tasks available now, or else the first to arrive."""
        try:
            return await self._server.poll(task_type, domain, most, 0) or await self._server.poll(
                task_type, domain, 1, CONDUCTOR_POLL_SECONDS
            )
        except EngineUnavailable as error:
            log.warning("conductor_not_polled", error=error.message)
            with suppress(TimeoutError):
                async with asyncio.timeout(CONDUCTOR_RETRY_SECONDS):
                    await self._stopping.wait()
            return []

    async def _do(self, handle: Handler, task: TaskRecord) -> None:
        """Each slot handles one task, and its failure affects no other."""
        try:
            await handle(task)
        except Exception:
            log.exception("conductor_task_failed", task=task.task_type)
