"""On Conductor: workers die, the server dies, its database is lost.

Conductor holds who is at what, and the database what is true. So whatever becomes of the first, the
run ends as it would have, and nothing of it happens twice. What kills a server is a storm: each
takes half a minute to start.
"""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.gateways.sandbox import Sandbox
from outrider.testing.launches import observe, target, until_terminal
from tests.crash.conftest import open_scene
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene
from tests.crash.workers import WorkerProcess
from tests.support.broken_server import closed_port
from tests.support.conductor_server import ConductorServer, running_conductor
from tests.support.controls import begun, control, created, until
from tests.support.whole_runs import opened, working

BATCH = MAIL_WINDOW_ITEMS + 4
SLOW_MS = 30
WHOLE_WINDOW_SECONDS = 5.0
"""A close group waits for its whole window, so that a boundary leaves the same behind each time."""
AT_ONCE_SECONDS = 3.0
"""For a control while nobody answers, on a machine with other work."""

SQLITE = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


@pytest.fixture
async def scene(database: str, tmp_path: Path, conductor_url: str) -> AsyncIterator[Scene]:
    """On the session's server, which nobody may kill."""
    async with open_scene(database, tmp_path, conductor_url=conductor_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[ConductorServer]:
    with running_conductor() as server:
        yield server


@pytest.fixture
async def doomed_scene(
    database: str, tmp_path: Path, mortal_server: ConductorServer
) -> AsyncIterator[Scene]:
    """On a server that may be killed, and is started again by the test."""
    await mortal_server.until_ready()
    async with open_scene(database, tmp_path, conductor_url=mortal_server.url) as opened:
        yield opened


@pytest.mark.parametrize(
    ("database", "provider", "boundary", "open_calls"),
    [
        ("sqlite", Provider.SMS, f"call:after:{BATCH + 7}", 0),
        ("postgres", Provider.MAIL, "close:before:2", MAIL_WINDOW_ITEMS),
    ],
    indirect=["database"],
)
async def test_a_worker_killed_on_a_boundary_is_followed_by_another_that_repeats_nothing(
    scene: Scene, provider: Provider, boundary: str, open_calls: int
) -> None:
    await scene.launch(provider, 3 * BATCH, batch_size=BATCH)
    doomed = scene.start_worker(kill_at=boundary, close_group_seconds=WHOLE_WINDOW_SECONDS)
    await doomed.died_of_its_boundary()
    second = scene.start_worker()
    assert len(await scene.comes_to_rest()) <= open_calls
    await scene.ends_well()
    await second.stop()


@SQLITE
async def test_a_control_is_answered_at_once_while_conductor_is_down(
    database: str, tmp_path: Path
) -> None:
    nobody = f"http://127.0.0.1:{closed_port()}"
    noop = target("sms.all", "noop", "noop:")
    async with opened(
        database, tmp_path, noop, engine="conductor", conductor_url=nobody
    ) as outrider:
        campaign_id = await created(outrider, 10)
        asked_at = time.monotonic()
        run_id = await begun(outrider, campaign_id)
        answer = await control(outrider, campaign_id, Action.PAUSE)
        assert time.monotonic() - asked_at < AT_ONCE_SECONDS
        assert answer.state is PhaseState.PAUSED
    # And it is in force: another engine finds it so, and goes on from there.
    async with opened(database, tmp_path, noop) as outrider, working(outrider):
        await control(outrider, campaign_id, Action.RESUME)
        assert (await until_terminal(outrider, run_id)).sent == 10
        assert (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds


@pytest.mark.storm
@SQLITE
async def test_storm_a_worker_outlives_the_server_and_continues_when_it_is_back(
    doomed_scene: Scene, mortal_server: ConductorServer
) -> None:
    worker = await _in_mid_campaign(doomed_scene)
    mortal_server.kill()
    assert not await _rests(doomed_scene)
    mortal_server.start()
    await mortal_server.until_ready()
    await _finishes(doomed_scene, worker)


@pytest.mark.storm
@SQLITE
async def test_storm_worker_and_server_killed_together_are_followed_by_others(
    doomed_scene: Scene, mortal_server: ConductorServer
) -> None:
    worker = await _in_mid_campaign(doomed_scene)
    mortal_server.kill()
    worker.kill()
    assert not await _rests(doomed_scene)
    mortal_server.start()
    await mortal_server.until_ready()
    second = doomed_scene.start_worker()
    await _finishes(doomed_scene, second, doubts_at_most=MAIL_WINDOW_ITEMS)


@pytest.mark.storm
@SQLITE
async def test_storm_a_run_ends_although_conductor_lost_its_whole_database(
    doomed_scene: Scene, mortal_server: ConductorServer
) -> None:
    worker = await _in_mid_campaign(doomed_scene)
    mortal_server.kill()
    assert not await _rests(doomed_scene)
    mortal_server.forget()
    mortal_server.start()
    await mortal_server.until_ready()
    await _finishes(doomed_scene, worker)


@pytest.mark.storm
@SQLITE
async def test_storm_a_pause_takes_effect_while_the_server_is_down(
    database: str, tmp_path: Path, mortal_server: ConductorServer
) -> None:
    await mortal_server.until_ready()
    async with (
        Sandbox() as sandbox,
        opened(
            database, tmp_path, target("sms.all", "sms", sandbox.http_url),
            engine="conductor", conductor_url=mortal_server.url,
        ) as outrider,
    ):  # fmt: skip
        sandbox.change_faults({"latencyMs": SLOW_MS})
        campaign_id = await created(outrider, 200)
        async with working(outrider):
            run_id = await begun(outrider, campaign_id)
            await until(lambda: sandbox.requests > 10)
            mortal_server.kill()
            asked_at = time.monotonic()
            answer = await control(outrider, campaign_id, Action.PAUSE)
            assert time.monotonic() - asked_at < AT_ONCE_SECONDS
            assert answer.state is PhaseState.PAUSED
            mortal_server.start()
            await mortal_server.until_ready()
            await control(outrider, campaign_id, Action.RESUME)
            assert (await until_terminal(outrider, run_id)).sent == 200


async def _in_mid_campaign(scene: Scene) -> WorkerProcess:
    scene.sandbox.change_faults({"latencyMs": SLOW_MS})
    await scene.launch(Provider.MAIL, 8 * BATCH, batch_size=BATCH)
    worker = scene.start_worker()
    assert await scene.provider_was_called(BATCH + 7)
    return worker


async def _finishes(scene: Scene, worker: WorkerProcess, doubts_at_most: int = 0) -> None:
    """A worker that was never killed knows how each of its calls ended."""
    assert len(await scene.comes_to_rest()) <= doubts_at_most
    await scene.ends_well()
    await worker.stop()


async def _rests(scene: Scene) -> bool:
    """Whether it came too late for what it is about."""
    _, accounting = await observe(scene.outrider, scene.run_id)
    return accounting.waiting == 0
