"""What the crash tests of all external engines share: a campaign in progress, and its end."""

import pytest

from outrider.testing.launches import observe
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene
from tests.crash.workers import WorkerProcess

BATCH = MAIL_WINDOW_ITEMS + 4
SLOW_MS = 30
WHOLE_WINDOW_SECONDS = 5.0
"""A close group waits for its whole window, so that a boundary leaves the same behind each time."""

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


async def a_killed_worker_is_followed_by_another(
    scene: Scene, provider: Provider, boundary: str, open_calls: int
) -> None:
    """Nothing is repeated, and at most `open_calls` items have to be settled by evidence."""
    await scene.launch(provider, 3 * BATCH, batch_size=BATCH)
    doomed = scene.start_worker(kill_at=boundary, close_group_seconds=WHOLE_WINDOW_SECONDS)
    await doomed.died_of_its_boundary()
    second = scene.start_worker()
    assert len(await scene.comes_to_rest()) <= open_calls
    await scene.ends_well()
    await second.stop()


async def in_mid_campaign(scene: Scene, provider: Provider = Provider.MAIL) -> WorkerProcess:
    scene.sandbox.change_faults({"latencyMs": SLOW_MS})
    await scene.launch(provider, 8 * BATCH, batch_size=BATCH)
    worker = scene.start_worker()
    assert await scene.provider_was_called(BATCH + 7)
    return worker


async def finishes(scene: Scene, worker: WorkerProcess, doubts_at_most: int = 0) -> None:
    """A worker that was never killed knows how each of its calls ended."""
    assert len(await scene.comes_to_rest()) <= doubts_at_most
    await scene.ends_well()
    await worker.stop()


async def has_ended(scene: Scene) -> bool:
    """Whether the campaign was over before the test could disturb it."""
    _, accounting = await observe(scene.outrider, scene.run_id)
    return accounting.waiting == 0
