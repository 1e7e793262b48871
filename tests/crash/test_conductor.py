"""On Conductor: workers die, the server dies, its database is lost.

Conductor knows which worker has what; the database is the truth. So whatever happens to Conductor,
the run ends in the same way, and nothing happens twice. Tests that kill a server are storms: each
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
from outrider.testing.launches import target, until_terminal
from tests.crash.conftest import open_scene
from tests.crash.engine_scene import (
    BATCH,
    SLOW_MS,
    SQLITE,
    a_killed_worker_is_followed_by_another,
    finishes,
    has_ended,
    in_mid_campaign,
)
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene
from tests.support.broken_server import closed_port
from tests.support.conductor_server import ConductorServer, running_conductor
from tests.support.controls import begun, control, created, until
from tests.support.whole_runs import opened, working

AT_ONCE_SECONDS = 3.0
"""For a control while nobody answers, on a machine with other work."""


@pytest.fixture
async def scene(database: str, tmp_path: Path, conductor_url: str) -> AsyncIterator[Scene]:
    """On the session's server, which tests must not kill."""
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
    """On a server that tests may kill and restart."""
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
    await a_killed_worker_is_followed_by_another(scene, provider, boundary, open_calls)


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
    worker = await in_mid_campaign(doomed_scene)
    mortal_server.kill()
    assert not await has_ended(doomed_scene)
    mortal_server.start()
    await mortal_server.until_ready()
    await finishes(doomed_scene, worker)


@pytest.mark.storm
@SQLITE
async def test_storm_worker_and_server_killed_together_are_followed_by_others(
    doomed_scene: Scene, mortal_server: ConductorServer
) -> None:
    worker = await in_mid_campaign(doomed_scene)
    mortal_server.kill()
    worker.kill()
    assert not await has_ended(doomed_scene)
    mortal_server.start()
    await mortal_server.until_ready()
    second = doomed_scene.start_worker()
    await finishes(doomed_scene, second, doubts_at_most=MAIL_WINDOW_ITEMS)


@pytest.mark.storm
@SQLITE
async def test_storm_a_run_ends_although_conductor_lost_its_whole_database(
    doomed_scene: Scene, mortal_server: ConductorServer
) -> None:
    worker = await in_mid_campaign(doomed_scene)
    mortal_server.kill()
    assert not await has_ended(doomed_scene)
    mortal_server.forget()
    mortal_server.start()
    await mortal_server.until_ready()
    await finishes(doomed_scene, worker)


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
