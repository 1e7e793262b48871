"""Projecting a long run: its whole log from nothing, and a little more of it onto a snapshot.

Once in memory alone, then by the projector through SQLite and through Postgres, each with a
reader's wait. Everything is on a throw-away database.
"""

import asyncio
import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog

from outrider.bootstrap import make_store
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.projection import RunSnapshot, incremental_project, project_run
from outrider.domain.run_events import RunEvent, RunEventType
from outrider.kernel.foundation import Foundation
from outrider.kernel.runs.projector import Projector
from outrider.kernel.runs.run_reader import RunReader, decoded, encoded
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.run_log import EventDraft
from outrider.limits.kernel import Limits
from outrider.ports.store import Store
from outrider.system import SystemClock, SystemIds
from outrider.testing.postgres import PrivatePostgres, create_database
from outrider.testing.store_suite.workshop import Workshop

EVENTS = int(os.environ.get("EVENTS", "100000"))
MORE = int(os.environ.get("MORE", "1000"))
STEPS = EVENTS // 2
WINDOW = 1_000
VERSION = "1"
COUNTS = {"status": "completed", "outcome": "completed", "sent": 500, "failed": 0, "skipped": 0}


def drafts(steps: list[str], logical_attempt: int) -> Iterator[EventDraft]:
    """Each step starts and completes."""
    for step in steps:
        yield EventDraft(RunEventType.STEP_STARTED, step, logical_attempt, 1)
        yield EventDraft(RunEventType.STEP_COMPLETED, step, logical_attempt, 1, COUNTS)


def numbered(run_id: RunId, told: Iterator[EventDraft], first: int) -> list[RunEvent]:
    now = datetime.now(UTC)
    return [
        RunEvent(
            run_id, seq, draft.type, now + timedelta(microseconds=seq), draft.step_id,
            draft.logical_attempt, draft.engine_attempt, draft.payload,
        )
        for seq, draft in enumerate(told, start=first)
    ]  # fmt: skip


@contextmanager
def timed(what: str, events: int) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds = time.perf_counter() - began
    rate = f"{events / seconds:>12,.0f} events/s" if events else ""
    print(f"  {what:<44}{seconds * 1000:>10.1f} ms{rate}")


def in_memory(steps: list[str]) -> None:
    run_id = RunId(SystemIds().new())
    log = numbered(run_id, drafts(steps, 1), 1)
    more = numbered(run_id, drafts(steps[: MORE // 2], 2), len(log) + 1)
    print(f"pure, {len(steps):,} steps")
    with timed(f"{len(log):,} events from nothing", len(log)):
        snapshot = project_run(run_id, log)
    with timed(f"{len(more):,} events onto that", len(more)):
        further = incremental_project(snapshot, more)
    assert further.last_event_seq == more[-1].run_seq
    with timed("written as a document", 0):
        document = encoded(further)
    with timed(f"read back, {len(document) / 1e6:.1f} MB", 0):
        assert decoded(run_id, document) == further


async def through(name: str, url: str, steps: list[str]) -> None:
    store, limits = make_store(url), Limits()
    await store.migrate()
    run_id = await Workshop(store).launch(1)
    print(f"{name}, {len(steps):,} steps")
    with timed(f"{EVENTS:,} events appended, {WINDOW:,} at once", EVENTS):
        await append(store, run_id, list(drafts(steps, 1)))
    foundation = Foundation(store, SystemClock(), SystemIds(), limits)
    projector = Projector(foundation)
    with timed("projected from nothing, and stored", EVENTS):
        await to_the_end(projector)
    await append(store, run_id, list(drafts(steps[: MORE // 2], 2)))
    with timed(f"{MORE:,} more, on what is remembered", MORE):
        await to_the_end(projector)
    await append(store, run_id, list(drafts(steps[: MORE // 2], 3)))
    reader = RunReader(store, limits)
    with timed(f"read: the stored one and {MORE:,} events", 0):
        now = await reader.snapshot(DEFAULT_SCOPE, run_id)
    with timed(f"{MORE:,} more, by a projector that was restarted", MORE):
        await to_the_end(Projector(foundation))
    with timed(f"read: as it was at event {EVENTS // 2:,}", 0):
        then = await reader.snapshot(DEFAULT_SCOPE, run_id, EVENTS // 2)
    check(now, then)
    await store.close()


def check(now: RunSnapshot, then: RunSnapshot) -> None:
    assert then.last_event_seq == EVENTS // 2
    assert now.last_event_seq > EVENTS
    assert sum(step.logical_attempt == 3 for step in now.steps.values()) == MORE // 2


async def append(store: Store, run_id: RunId, told: list[EventDraft]) -> None:
    for begin in range(0, len(told), WINDOW):
        window = told[begin : begin + WINDOW]
        await store.write(run_log.append(run_id, VERSION, window, datetime.now(UTC)))


async def to_the_end(projector: Projector) -> None:
    while await projector.lag_seconds():
        # A run that is slow to store is normally deferred; not wanted here.
        projector._resting.clear()
        await projector.project_once()


async def main() -> None:
    # The projector's lag, which is expected here, would be logged among the figures.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    steps = SystemIds().batch(STEPS)
    in_memory(steps)
    with tempfile.TemporaryDirectory(prefix="outrider-bench-") as folder:
        await through("SQLite", f"sqlite:///{folder}/outrider.db", steps)
        server = PrivatePostgres(Path(folder) / "postgres")
        try:
            await through("Postgres", await create_database(server.url), steps)
        finally:
            server.close()


if __name__ == "__main__":
    asyncio.run(main())
