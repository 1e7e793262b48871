"""A worker that starts where another died does not wait for the dead one's lease.

And a job that kills whoever takes it is given up in the end, with every item accounted for.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import ItemStatus, RunStatus
from outrider.testing import chaos_worker
from tests.crash.conftest import open_scene
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene
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


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("provider", Provider)
async def test_a_job_that_kills_every_worker_is_given_up_and_still_accounted_for(
    database: str, tmp_path: Path, provider: Provider
) -> None:
    items = MAIL_WINDOW_ITEMS + 4
    async with open_scene(database, tmp_path, job_attempts=2) as scene:
        await scene.launch(provider, items, batch_size=items)
        for _ in range(2):
            doomed = scene.start_worker(kill_at="reserve:before:1")
            await doomed.died_of_its_boundary()
        last = scene.start_worker()
        look = await scene.watcher.until(lambda look: look.is_terminal)
        await last.stop()

        assert look.status is RunStatus.FAILED
        assert look.accounting.failed == items
        assert {item.status for item in await scene.items()} == {ItemStatus.FAILED}
        assert not scene.witness.lines(), "who gives up calls nobody"
        certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, scene.run_id)
        assert certificate.holds, certificate.criteria
