"""Postgres goes down without warning in the middle of a run and comes back: the worker continues.

Since the worker lives, every call it made is recorded in the end. Doubt remains only for calls that
were never made: of a reservation that was committed while its acknowledgement was lost.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from outrider.kernel.transactions import run_jobs
from outrider.testing.postgres import PrivatePostgres, create_database
from tests.crash.conftest import open_scene
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene
from tests.crash.workers import LEASE_SECONDS, SHORT_LEASE_SECONDS

ITEMS = 400
BATCH = MAIL_WINDOW_ITEMS + 4
JOBS_IN_PARALLEL = 2
CLOSING_SECONDS = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[PrivatePostgres]:
    """A server of these tests' own: nobody else's run goes down with it.

    Not below pytest's folder, which every new session on this machine shuts to all but its owner.
    """
    with TemporaryDirectory(prefix="outrider-postgres-", ignore_cleanup_errors=True) as folder:
        made = PrivatePostgres(Path(folder))
        yield made
        made.close()


@pytest.fixture
async def scene(server: PrivatePostgres, tmp_path: Path) -> AsyncIterator[Scene]:
    async with open_scene(await create_database(server.url), tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("stops", [1, 3])
@pytest.mark.parametrize("provider", Provider)
async def test_a_worker_outlives_its_database_and_records_what_it_did_meanwhile(
    scene: Scene, server: PrivatePostgres, provider: Provider, stops: int
) -> None:
    seed = stops
    print(f"seed {seed}")
    dice = random.Random(seed)
    scene.sandbox.change_faults({"latencyMs": 50})
    await scene.launch(provider, ITEMS, batch_size=BATCH)
    # Jobs it could not give back while the database was down are claimed when its lease has ended.
    worker = scene.start_worker(
        jobs_in_parallel=JOBS_IN_PARALLEL, lease_seconds=SHORT_LEASE_SECONDS
    )
    for _ in range(stops):
        assert await scene.provider_was_called(dice.randrange(20, ITEMS // (stops + 2)))
        await asyncio.to_thread(server.stop_immediately)
        await asyncio.to_thread(server.start_again)

    doubts = await scene.comes_to_rest()
    assert len(doubts) <= stops * JOBS_IN_PARALLEL * MAIL_WINDOW_ITEMS
    await _only_calls_never_made_stay_in_doubt(scene)
    await scene.ends_well()
    await worker.stop()


@pytest.mark.parametrize("provider", Provider)
async def test_a_short_restart_uses_up_neither_a_jobs_attempt_nor_its_lease(
    scene: Scene, server: PrivatePostgres, provider: Provider
) -> None:
    """XM: the database was down, which is not the job's fault; it continues when it is back."""
    scene.sandbox.change_faults({"latencyMs": 50})
    await scene.launch(provider, ITEMS, batch_size=BATCH)
    worker = scene.start_worker(jobs_in_parallel=JOBS_IN_PARALLEL, lease_seconds=LEASE_SECONDS)
    assert await scene.provider_was_called(ITEMS // 4)
    await asyncio.to_thread(server.stop_immediately)
    await asyncio.to_thread(server.start_again)
    back_at = time.monotonic()
    assert await scene.provider_was_called(1)
    assert time.monotonic() - back_at < LEASE_SECONDS / 2

    assert not await scene.comes_to_rest()
    await scene.ends_well()
    counts = await scene.outrider.store.read(run_jobs.job_counts(scene.run_id))
    assert [count.attempts for count in counts] == [0]
    await worker.stop()


async def _only_calls_never_made_stay_in_doubt(scene: Scene) -> None:
    """A result that was kept while the store was away may be written after its job was rescued."""
    async with asyncio.timeout(CLOSING_SECONDS):
        while True:
            deliveries = scene.witness.deliveries()
            if not any(doubt.reference in deliveries for doubt in await scene.doubts()):
                return
            await asyncio.sleep(0.02)
