"""The local engine: workers poll the queue for due work and need no notification.

A worker in the same process is woken at once; others by the database, or by polling.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from outrider.domain.ids import RunId, TenantId
from outrider.domain.signals import Signal
from outrider.engines.parts import EngineParts
from outrider.kernel.foundation import Foundation
from outrider.kernel.work.job_dispatcher import JobDispatcher
from outrider.ports.engine import Engine, Jobs, Stalled, Work


def local_reference(_tenant_id: TenantId, run_id: RunId) -> str:
    return f"local/{run_id}"


def make_engine(parts: EngineParts) -> Engine:
    return LocalEngine(parts.foundation)


class LocalEngine(Engine):
    polls_queue = True

    def __init__(self, foundation: Foundation) -> None:
        self._foundation = foundation
        self._dispatchers: set[JobDispatcher] = set()

    async def start(self, run: Work) -> None:  # noqa: ARG002 - the queue knows which
        self.wake()

    async def signal(self, run: Work, signal: Signal, step_id: str | None = None) -> None:  # noqa: ARG002
        for dispatcher in self._dispatchers:
            dispatcher.steered()

    async def recover(self, stalled: Sequence[Stalled]) -> Sequence[Stalled]:
        self.wake()
        return stalled

    def reference(self, tenant_id: TenantId, run_id: RunId) -> str:
        return local_reference(tenant_id, run_id)

    @asynccontextmanager
    async def worker(self, jobs: Jobs) -> AsyncIterator[JobDispatcher]:
        """Notified of this process's decisions while the block runs."""
        dispatcher = JobDispatcher(self._foundation, jobs)
        self._dispatchers.add(dispatcher)
        try:
            yield dispatcher
        finally:
            self._dispatchers.discard(dispatcher)

    def wake(self) -> None:
        for dispatcher in self._dispatchers:
            dispatcher.wake()
