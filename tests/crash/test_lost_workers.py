"""Any number of workers die, and machines run out of resources: no item fails because of it."""

import asyncio
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions.alerts import LAST, AlertCode, AlertRecord, alerts_page
from tests.crash.conftest import open_scene
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene

PATIENCE_SECONDS = 60.0
JOB_ATTEMPTS = 2
ITEMS = 40


@pytest.fixture
async def scene(database: str, tmp_path: Path) -> AsyncIterator[Scene]:
    async with open_scene(database, tmp_path, job_attempts=JOB_ATTEMPTS) as opened:
        yield opened


async def alerts(scene: Scene, code: AlertCode) -> list[AlertRecord]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
    return [each for each in await scene.outrider.store.read(page) if each.code == code]


async def until_alert(scene: Scene, code: AlertCode) -> AlertRecord:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if found := await alerts(scene, code):
                return found[0]
            await asyncio.sleep(0.02)


async def test_workers_killed_one_after_another_fail_no_item(scene: Scene) -> None:
    """X2: the job pauses and an alert says so; then a worker that survives sends to everyone."""
    await scene.launch(Provider.SMS, ITEMS, batch_size=ITEMS)
    for _ in range(JOB_ATTEMPTS):
        await scene.start_worker(kill_at="reserve:before:1").died_of_its_boundary()
    survivor = scene.start_worker()
    alert = await until_alert(scene, AlertCode.JOB_RESTS)
    assert alert.subject == scene.run_id
    assert "worker died" in alert.message
    assert not await scene.items(), "nobody was called, and nobody has failed"
    await scene.ends_well()
    assert not await alerts(scene, AlertCode.JOB_RESTS), "it got somewhere"
    await survivor.stop()


async def test_progress_between_two_kills_resets_the_count(scene: Scene) -> None:
    """X2: what counts is losses in a row."""
    scene.sandbox.change_faults({"latencyMs": 20})
    await scene.launch(Provider.SMS, 5 * ITEMS, batch_size=5 * ITEMS)
    for _ in range(JOB_ATTEMPTS + 1):
        await scene.start_worker(kill_at="close:after:1").died_of_its_boundary()
    survivor = scene.start_worker()
    await scene.ends_well()
    assert not await alerts(scene, AlertCode.JOB_RESTS)
    await survivor.stop()


async def test_after_each_loss_fewer_calls_are_out_at_once(scene: Scene) -> None:
    """X2: should one message kill whoever calls it, the others of its job get past it."""
    scene.sandbox.change_faults({"latencyMs": 200})
    await scene.launch(Provider.MAIL, 3 * MAIL_WINDOW_ITEMS, batch_size=3 * MAIL_WINDOW_ITEMS)
    for _ in range(2):
        await scene.start_worker(kill_at="call:after:1").died_of_its_boundary()
    scene.sandbox.change_faults({})
    survivor = scene.start_worker()
    doubts = await scene.comes_to_rest()
    assert len(doubts) <= MAIL_WINDOW_ITEMS + MAIL_WINDOW_ITEMS // 4
    await scene.ends_well()
    await survivor.stop()


async def test_a_worker_without_file_handles_waits_fails_no_item_and_says_so(scene: Scene) -> None:
    """X3: it is our limit, so it is no outcome, no attempt, and no news of the target."""
    worker = scene.start_worker()
    await scene.launch(Provider.MAIL, 4, batch_size=4)
    await scene.watcher.until(lambda look: look.is_terminal)
    await scene.watcher.stop()
    pid = worker.pid
    known = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (psutil.Process(pid).num_fds(), known[1]))
    await scene.launch(Provider.SMS, ITEMS, batch_size=10)
    alert = await until_alert(scene, AlertCode.OUT_OF_HANDLES)
    assert "Too many open files" in alert.message
    items = await scene.items()
    assert {item.status for item in items} <= {"queued"}
    overview = await scene.outrider.target_keeper.overview()
    assert all(door.is_open for door in overview.doors.values())

    resource.prlimit(pid, resource.RLIMIT_NOFILE, known)
    await scene.watcher.until(lambda look: look.is_terminal)
    items = await scene.items()
    assert {(item.status, item.attempts) for item in items} == {("sent", 1)}
    assert scene.witness.deliveries().items() >= {item.reference: 1 for item in items}.items()
    await worker.stop()
