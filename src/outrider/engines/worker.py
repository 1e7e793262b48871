"""A worker process: its engine's work, and the background roles, as concurrent loops.

They start and stop together; on `stop` no new job is taken, windows in progress are called to their
end and closed, and held jobs are settled or handed back.
"""

import asyncio
import gc
from functools import cache

import structlog

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.delivery.call_permits import CallPermits
from outrider.kernel.delivery.gateway_caller import GatewayCaller
from outrider.kernel.delivery.result_closer import ResultCloser
from outrider.kernel.receipts.doubt_settler import DoubtSettler
from outrider.kernel.work.background_loops import BackgroundLoops
from outrider.kernel.work.job_processor import JobProcessor
from outrider.kernel.work.lease_rescuer import LeaseRescuer
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.ports.engine import Worker

log = structlog.get_logger()

SETTLER_RESTART_SECONDS = 5.0


class EngineWorker:
    """`mover` is the engine's part: it has the processor do one job after another."""

    def __init__(
        self,
        mover: Worker,
        processor: JobProcessor,
        permits: CallPermits,
        caller: GatewayCaller,
        closer: ResultCloser,
        rescuer: LeaseRescuer,
        settler: DoubtSettler,
        reporter: ProgressReporter,
        background_loops: BackgroundLoops,
    ) -> None:
        self._mover = mover
        self._processor = processor
        self._permits = permits
        self._caller = caller
        self._closer = closer
        self._rescuer = rescuer
        self._settler = settler
        self._reporter = reporter
        self._background_loops = background_loops

    def stop(self) -> None:
        self._mover.stop()
        self._caller.stop()

    async def run(self) -> None:
        """Work until `stop` is called."""
        _collect_less()
        await self._free_the_dead()
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(self._closer.run(), name="result closer"),
                group.create_task(self._processor.keep_leases(), name="lease keeper"),
                group.create_task(self._caller.gate.shares.keep(), name="call shares"),
                group.create_task(self._permits.run(), name="call permits"),
                group.create_task(self._rescuer.run(), name="lease rescuer"),
                group.create_task(self._settle_doubts(), name="doubt settler"),
                group.create_task(self._reporter.run(), name="progress reporter"),
                group.create_task(self._background_loops.run(), name="background_loops"),
            ]
            await self._mover.run()
            # Whatever the engine does with them, their calls are closed before the closer ends.
            if self._processor.held:
                await asyncio.wait(self._processor.held)
            for loop in loops:
                loop.cancel()

    async def _settle_doubts(self) -> None:
        while True:
            try:
                await self._settler.run()
            except Exception:
                # Whatever a provider answers must not stop the sending.
                log.exception("doubt_settler_failed")
                await asyncio.sleep(SETTLER_RESTART_SECONDS)

    async def _free_the_dead(self) -> None:
        try:
            await self._rescuer.free_the_dead()
        except StoreUnavailable as error:
            # Not worth dying for: leases expire on their own.
            log.warning("rescue_failed", error=error.message)


@cache
def _collect_less() -> None:
    """Once per process: objects loaded by now live as long as the process. Scanning them for
    garbage takes some fifty milliseconds every other second, in which nothing else happens in this
    process."""
    gc.freeze()
