"""The local engine: one worker process, its roles as concurrent loops over the job queue.

Dispatcher, lease keeper, closer and rescuer start together and stop together; on `stop` no new job
is claimed, calls under way are closed, and held jobs are settled.
"""

import asyncio

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.job_dispatcher import JobDispatcher
from outrider.kernel.lease_rescuer import LeaseRescuer
from outrider.kernel.progress_reporter import ProgressReporter
from outrider.kernel.result_closer import ResultCloser

log = structlog.get_logger()


class LocalWorker:
    def __init__(
        self,
        dispatcher: JobDispatcher,
        closer: ResultCloser,
        rescuer: LeaseRescuer,
        reporter: ProgressReporter,
    ) -> None:
        self._dispatcher = dispatcher
        self._closer = closer
        self._rescuer = rescuer
        self._reporter = reporter

    def stop(self) -> None:
        self._dispatcher.stop()

    async def run(self) -> None:
        """Work until `stop` is called."""
        await self._free_the_dead()
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(self._closer.run(), name="result closer"),
                group.create_task(self._dispatcher.keep_leases(), name="lease keeper"),
                group.create_task(self._rescuer.run(), name="lease rescuer"),
                group.create_task(self._reporter.run(), name="progress reporter"),
            ]
            await self._dispatcher.run()
            for loop in loops:
                loop.cancel()

    async def _free_the_dead(self) -> None:
        try:
            await self._rescuer.free_the_dead()
        except StoreUnavailable as error:
            # Not worth dying for: leases run out on their own.
            log.warning("rescue_failed", error=error.message)
