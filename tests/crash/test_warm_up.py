"""Workers that die while a target warms up: a day's part of its plan is sent, and not one more."""

from pathlib import Path

import pytest

from outrider.kernel.transactions import policy_holds
from outrider.settings import TargetSettings
from tests.crash.conftest import open_scene
from tests.crash.scene import Provider, Scene
from tests.support.eventually import eventually

DAYS_PART = 90
PEOPLE = 160


@pytest.mark.parametrize("kill_at", ["open:after:2", "call:after:40"])
async def test_a_killed_worker_neither_wastes_nor_exceeds_the_days_part(
    database: str, tmp_path: Path, kill_at: str
) -> None:
    """What was open when it died is counted, and is not counted again when it is called."""
    plan = TargetSettings(warm_up=[DAYS_PART, 100_000])
    async with open_scene(database, tmp_path, sms=plan) as scene:
        await scene.launch(Provider.SMS, PEOPLE, batch_size=40)
        doomed = scene.start_worker(kill_at=kill_at, jobs_in_parallel=2)
        await doomed.died_of_its_boundary()
        survivors = [scene.start_worker(jobs_in_parallel=2) for _ in range(2)]
        await eventually(lambda: _waits(scene, PEOPLE - DAYS_PART))
        for each in survivors:
            await each.stop()
        assert len(scene.sandbox.deliveries) == scene.sandbox.deliveries.total() == DAYS_PART


async def _waits(scene: Scene, people: int) -> bool:
    found = await scene.outrider.store.read(policy_holds.of_runs([scene.run_id]))
    waiting = sum(hold.waiting for hold in found.get(scene.run_id, []))
    return waiting == people and len(scene.sandbox.deliveries) >= PEOPLE - people
