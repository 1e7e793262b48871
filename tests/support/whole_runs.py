"""Whole runs in one process: Outrider opened on a database, and workers that run to the end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.outbox import Accounting
from outrider.domain.retry import RetrySchedule
from outrider.kernel.transactions import ledger_items
from outrider.kernel.transactions.ledger_items import Item
from outrider.limits.kernel import Limits
from outrider.ports.clock import Clock
from outrider.ports.stages import StageObserver
from outrider.settings import Settings
from outrider.testing.clock import FakeClock
from outrider.testing.launches import WATCH_SECONDS, observe, registry, remembering, until_terminal

QUICK = RetrySchedule(first_seconds=0.05)
IMPATIENT = Limits(
    idle_poll_seconds=0.02, rescue_interval_seconds=0.05,
    # However long a busy machine took for it, a run is projected again when a test says so.
    projector_rest_factor=0.0,
    # Doubts stay as they are for tests to see, unless a test wants them settled.
    doubt_first_seconds=3_600.0, doubt_cap_seconds=3_600.0,
)  # fmt: skip
MOST = 10_000
SANDBOXED = ("sms", "push")
PATIENCE_SECONDS = 60
START = datetime(2026, 1, 1, tzinfo=UTC)


class SteppedClock(FakeClock):
    """A fake clock whose sleepers wake when the test has moved time past their moment."""

    def __init__(self, start: datetime = START) -> None:
        super().__init__(start)
        self._moved = asyncio.Condition()

    async def sleep(self, seconds: float) -> None:
        until = self.now() + timedelta(seconds=seconds)
        async with self._moved:
            await self._moved.wait_for(lambda: self.now() >= until)

    async def step(self, seconds: float) -> None:
        self.advance(seconds)
        async with self._moved:
            self._moved.notify_all()


@asynccontextmanager
async def opened(
    database: str,
    folder: Path,
    *targets: dict[str, object],
    limits: Limits = IMPATIENT,
    clock: Clock | None = None,
    **others: Any,
) -> AsyncIterator[Outrider]:
    """Outrider on a migrated database, with a registry of these targets and these settings. Unless
    they say otherwise, SMS and push are taken by sandboxes, which know every reference again."""
    path = folder / "registry.json"
    path.write_bytes(registry(*targets))
    by_sandboxes = [str(e["submissionTarget"]) for e in targets if e["gatewayType"] in SANDBOXED]
    others.setdefault("targets", remembering(*by_sandboxes))
    settings = Settings(
        database_url=database,
        registry=path,
        artifacts=folder / "artifacts",
        spool=folder / "spool",
        **others,
    )
    async with open_outrider(settings, limits=limits, clock=clock) as outrider:
        await outrider.store.migrate()
        yield outrider


@asynccontextmanager
async def working(
    outrider: Outrider,
    *,
    retry: RetrySchedule = QUICK,
    observer: StageObserver | None = None,
    worker_id: WorkerId | None = None,
) -> AsyncIterator[asyncio.Task[None]]:
    """A worker at work meanwhile; afterwards it is stopped, and its bugs are raised."""
    async with outrider.worker(retry=retry, observer=observer, worker_id=worker_id) as worker:
        running = asyncio.create_task(worker.run())
        try:
            yield running
        finally:
            worker.stop()
            await running


async def work_until_terminal(
    outrider: Outrider,
    run_id: RunId,
    *,
    retry: RetrySchedule = QUICK,
    observer: StageObserver | None = None,
) -> Accounting:
    async with working(outrider, retry=retry, observer=observer) as running:
        watching = asyncio.create_task(until_terminal(outrider, run_id, seconds=PATIENCE_SECONDS))
        # A worker that dies must not leave the test waiting for its run.
        await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            watching.cancel()
            await running
        return await watching


async def work_until(
    outrider: Outrider, run_id: RunId, reached: Callable[[Accounting], bool]
) -> Accounting:
    """Work until the accounting is as wanted; it must add up at every look."""
    async with working(outrider) as running, asyncio.timeout(PATIENCE_SECONDS):
        while not running.done():
            _, accounting = await observe(outrider, run_id)
            assert accounting.holds, accounting
            if reached(accounting):
                return accounting
            await asyncio.sleep(WATCH_SECONDS)
    raise AssertionError("the worker stopped on its own")


async def items_of(outrider: Outrider, run_id: RunId) -> dict[str, Item]:
    """The run's ledger rows by recipient; only for runs of one message."""
    rows = await outrider.store.read(ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=MOST))
    found = {row.recipient_id: row for row in rows}
    assert len(found) == len(rows)
    return found
