"""What runs beside the requests: the event hub, the phase restorer and, optionally, a worker.

They start before the first request and end after the last one. If one of them fails, the server is
notified, because it could no longer keep its promises.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import structlog

from outrider.api.auth import Doorkeeper
from outrider.api.body_budget import BodyBudget
from outrider.api.client_address import TrustedProxies
from outrider.api.database_watch import DatabaseWatch
from outrider.api.errors import ApiError
from outrider.api.idempotency import Once
from outrider.api.metrics import Metrics
from outrider.api.streams import Streams
from outrider.api.upload_folder import UploadFolder, remove_left_overs
from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidInput
from outrider.kernel.access.failed_auth_limiter import FailedAuthLimiter
from outrider.kernel.access.fair_turns import FairTurns
from outrider.limits.api import ApiLimits
from outrider.ports.engine import Worker

log = structlog.get_logger()


class Services:
    def __init__(
        self,
        outrider: Outrider,
        limits: ApiLimits,
        *,
        run_worker: bool,
        behind_tls: bool,
        on_failure: Callable[[], None],
    ) -> None:
        self.outrider = outrider
        self.limits = limits
        self.behind_tls = behind_tls
        self.metrics = Metrics(outrider.call_meter)
        self.streams = Streams(limits, self.metrics.streams)
        self.bodies = BodyBudget(limits.bodies_bytes, limits.bodies_workspace_bytes, limits)
        self.uploads = BodyBudget(limits.uploads_bytes, limits.uploads_workspace_bytes, limits)
        self.upload_folder = UploadFolder()
        self.reads = FairTurns(
            "reads", limits.reads, limits.reads_per_workspace, limits.reads_waiting_per_workspace
        )
        self.proxies = TrustedProxies(outrider.settings.trusted_proxies)
        self.database = DatabaseWatch(outrider.store, limits)
        self.doorkeeper = Doorkeeper(
            outrider.key_keeper, outrider.session_keeper, outrider.clock,
            self.metrics.auth_failures, self.proxies,
        )  # fmt: skip
        self.failed_tokens = FailedAuthLimiter()
        self.once = Once(outrider.idempotency, outrider.answer_finder, limits)
        self._run_worker = run_worker
        self._on_failure = on_failure
        self._worker: Worker | None = None
        self._has_registry = False
        self.failure: BaseException | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        outrider = self.outrider
        await outrider.set_clock()
        await outrider.bus_keeper.register()
        restored = await outrider.phase_restorer.restore()
        if restored:
            log.warning("phases_restored", phases=restored)
        async with AsyncExitStack() as stack:
            stack.callback(outrider.stop_guard.close)
            stack.push_async_callback(outrider.answer_finder.close)
            stack.callback(self.upload_folder.close)
            await asyncio.to_thread(remove_left_overs)
            loops = [
                self._start("event hub", outrider.hub.run()),
                self._start("phase restorer", outrider.phase_restorer.run()),
                self._start("background_loops", outrider.background_loops.run()),
            ]
            working = None
            if self._run_worker:
                self._worker = await stack.enter_async_context(outrider.worker())
                working = self._start("worker", self._worker.run())
            try:
                yield
            finally:
                self.begin_stop()
                if working is not None:
                    await self._ended(working)
                for loop in loops:
                    loop.cancel()
                await asyncio.gather(*loops, return_exceptions=True)

    def begin_stop(self) -> None:
        """Claim no more jobs and end the streams; requests in progress are still answered."""
        self.streams.close()
        self.outrider.stop_guard.begin()
        if self._worker is not None:
            self._worker.stop()

    async def require_registry(self) -> None:
        """The contracts in force are loaded, or no request can be served: that is not the client's
        fault."""
        if self._has_registry:
            return
        try:
            await self.outrider.registry_follower.refresh()
            await asyncio.to_thread(self.outrider.registry_keeper.contracts)
        except InvalidInput as error:
            log.error("registry_not_read", error=error.message, problems=len(error.problems))
            raise ApiError(
                503,
                "REGISTRY_UNAVAILABLE",
                "this server has no usable registry of submission targets",
                hint="use PUT /api/v2/registry, or run `outrider registry check`",
                headers={"Retry-After": str(self.limits.retry_after_seconds)},
            ) from error
        self._has_registry = True

    def _start(self, name: str, role: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(role, name=name)
        task.add_done_callback(self._role_ended)
        return task

    def _role_ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            log.error("role_failed", role=task.get_name(), exc_info=error)
            self.failure = error
            self._on_failure()

    async def _ended(self, working: asyncio.Task[None]) -> None:
        """Held jobs are finished first; beyond the time limit they are left to their leases."""
        seconds = self.limits.worker_stop_seconds
        if not await self.outrider.stop_guard.ended(working, seconds):
            log.error("worker_cut_off", seconds=seconds)
