"""The run reconciler: a run that waits is started as soon as its workspace has room for it."""

from pathlib import Path

from outrider.kernel.control.run_reconciler import Dequeued
from outrider.kernel.transactions.run_starts import DequeueStatus
from outrider.settings import AdmissionTable
from outrider.testing.launches import target
from tests.support.noop_launches import NOOP, noop_launch
from tests.support.whole_runs import opened, work_until_terminal


async def test_a_waiting_run_starts_when_the_one_before_it_has_ended(
    database: str, tmp_path: Path
) -> None:
    gateway = target(NOOP, "noop", "noop:")
    table = AdmissionTable(concurrent_runs=1)
    async with opened(database, tmp_path, gateway, admission=table) as outrider:
        first, second = [await noop_launch(outrider) for _ in range(2)]
        assert await outrider.run_reconciler.dequeue_and_start() == []
        # A worker that dequeues nothing itself.
        outrider.background_loops._loops = {}
        await work_until_terminal(outrider, first)
        started = await outrider.run_reconciler.dequeue_and_start()
        assert started == [Dequeued(second, DequeueStatus.STARTED)]
        assert (await work_until_terminal(outrider, second)).sent == 3
