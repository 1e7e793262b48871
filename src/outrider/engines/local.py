"""The local engine: workers take what is due from the queue themselves, and need nobody to tell.

A worker in the same process is woken at once; any other by the database, or by its own look.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from outrider.domain.ids import RunId, TenantId
from outrider.domain.signals import Signal
from outrider.kernel.work.job_dispatcher import JobDispatcher
from outrider.ports.engine import Stalled, Work


def local_reference(_tenant_id: TenantId, run_id: RunId) -> str:
    return f"local/{run_id}"


class LocalEngine:
    def __init__(self) -> None:
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

    @contextmanager
    def waking(self, dispatcher: JobDispatcher) -> Iterator[None]:
        """This dispatcher hears of what this process decides, for as long as the block runs."""
        self._dispatchers.add(dispatcher)
        try:
            yield
        finally:
            self._dispatchers.discard(dispatcher)

    def wake(self) -> None:
        for dispatcher in self._dispatchers:
            dispatcher.wake()
