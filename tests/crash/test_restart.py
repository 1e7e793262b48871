"""A worker that starts where another died does not wait for the dead one's lease."""

import asyncio
import sys

import pytest

from outrider.testing import chaos_worker
from tests.crash.scene import Provider, Scene
from tests.crash.workers import PATIENCE_SECONDS

LEASE_SECONDS = 600.0
"""Far longer than the test waits for anything."""


async def test_a_restarted_worker_frees_the_jobs_of_its_dead_predecessor_at_once(
    scene: Scene,
) -> None:
    await scene.launch(Provider.SMS, 60, batch_size=20)
    first = scene.start_worker(lease_seconds=LEASE_SECONDS, kill_at="call:after:7")
    await first.died_of_its_boundary()
    second = scene.start_worker(lease_seconds=LEASE_SECONDS, stop_when_idle=True)
    await scene.watcher.until(lambda look: look.is_terminal)
    await scene.ends_well()
    await second.ended_well()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_the_chaos_worker_runs_from_the_command_line_too(scene: Scene) -> None:
    await scene.launch(Provider.SMS, 20, batch_size=20, body="Hi {{ firstName }}")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", chaos_worker.__name__, "--stop-when-idle",
        "--database", scene.database, "--registry", str(scene.registry),
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await process.wait() == 0
    await scene.ends_well()
