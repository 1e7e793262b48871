"""On Temporal: workers die, the server dies, its database is lost, its workflows are ended by hand.

Temporal knows which worker has what; the database is the truth. So whatever happens to Temporal,
the run ends in the same way, and nothing happens twice.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.engines.temporal.engine import workflow_id
from outrider.ports.engine import Work, WorkKind
from tests.crash.conftest import open_scene
from tests.crash.engine_scene import (
    BATCH,
    SLOW_MS,
    SQLITE,
    WHOLE_WINDOW_SECONDS,
    a_killed_worker_is_followed_by_another,
    finishes,
    has_ended,
    in_mid_campaign,
)
from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene
from tests.support.temporal_server import TemporalServer, running_temporal


@pytest.fixture
async def scene(
    database: str, tmp_path: Path, temporal_server: TemporalServer
) -> AsyncIterator[Scene]:
    """On the session's server, which tests must not kill."""
    async with open_scene(database, tmp_path, temporal_address=temporal_server.address) as opened:
        yield opened


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[TemporalServer]:
    with running_temporal() as server:
        yield server


@pytest.fixture
async def doomed_scene(
    database: str, tmp_path: Path, mortal_server: TemporalServer
) -> AsyncIterator[Scene]:
    """On a server that tests may kill and restart."""
    await mortal_server.until_ready()
    async with open_scene(database, tmp_path, temporal_address=mortal_server.address) as opened:
        yield opened


@pytest.mark.parametrize(
    ("database", "provider", "boundary", "open_calls"),
    [
        ("sqlite", Provider.SMS, "claim:after:2", 0),
        ("sqlite", Provider.SMS, f"call:after:{BATCH + 7}", 0),
        ("sqlite", Provider.MAIL, "open:after:1", 0),
        ("postgres", Provider.MAIL, f"call:after:{BATCH + 7}", MAIL_WINDOW_ITEMS),
        ("sqlite", Provider.MAIL, "close:before:2", MAIL_WINDOW_ITEMS),
        ("postgres", Provider.SMS, "settle:before:2", 0),
        ("sqlite", Provider.MAIL, "settle:after:1", 0),
    ],
    indirect=["database"],
)
async def test_a_worker_killed_on_a_boundary_is_followed_by_another_that_repeats_nothing(
    scene: Scene, provider: Provider, boundary: str, open_calls: int
) -> None:
    await a_killed_worker_is_followed_by_another(scene, provider, boundary, open_calls)


@SQLITE
async def test_when_one_of_two_workers_is_killed_the_other_finishes_for_both(scene: Scene) -> None:
    scene.sandbox.change_faults({"latencyMs": SLOW_MS})
    await scene.launch(Provider.MAIL, 10 * BATCH, batch_size=BATCH)
    doomed = scene.start_worker(kill_at="call:after:30")
    survivor = scene.start_worker()
    await doomed.died_of_its_boundary()
    assert len(await scene.comes_to_rest()) <= MAIL_WINDOW_ITEMS
    await scene.ends_well()
    await survivor.stop()


@SQLITE
async def test_a_worker_back_from_the_dead_closes_its_own_attempts_and_nothing_else(
    scene: Scene,
) -> None:
    await scene.launch(Provider.MAIL, 3 * BATCH, batch_size=BATCH)
    zombie = scene.start_worker(stall_at="close:before:1", close_group_seconds=WHOLE_WINDOW_SECONDS)
    await zombie.is_stalled()
    second = scene.start_worker()
    assert len(await scene.comes_to_rest()) == MAIL_WINDOW_ITEMS

    zombie.thaw()
    # It knows how its calls ended, so that no evidence is needed from anybody else.
    await scene.watcher.until(lambda look: look.is_terminal)
    assert not await scene.doubts()
    await scene.ends_well()
    assert len(scene.witness.lines()) == 3 * BATCH, "one call for each item"
    await zombie.has_logged("lease_lost")
    await zombie.stop()
    await second.stop()


@SQLITE
@pytest.mark.parametrize("provider", Provider)
async def test_a_worker_outlives_the_server_and_continues_when_it_is_back(
    doomed_scene: Scene, mortal_server: TemporalServer, provider: Provider
) -> None:
    worker = await in_mid_campaign(doomed_scene, provider)
    mortal_server.kill()
    assert not await has_ended(doomed_scene)
    mortal_server.start()
    await finishes(doomed_scene, worker)


@SQLITE
async def test_worker_and_server_killed_together_are_followed_by_others(
    doomed_scene: Scene, mortal_server: TemporalServer
) -> None:
    worker = await in_mid_campaign(doomed_scene, Provider.MAIL)
    mortal_server.kill()
    worker.kill()
    assert not await has_ended(doomed_scene)
    mortal_server.start()
    await mortal_server.until_ready()
    second = doomed_scene.start_worker()
    await finishes(doomed_scene, second, doubts_at_most=MAIL_WINDOW_ITEMS)


@SQLITE
async def test_a_run_ends_although_temporal_lost_its_whole_database(
    doomed_scene: Scene, mortal_server: TemporalServer
) -> None:
    worker = await in_mid_campaign(doomed_scene, Provider.MAIL)
    mortal_server.kill()
    assert not await has_ended(doomed_scene)
    mortal_server.forget()
    mortal_server.start()
    await finishes(doomed_scene, worker)


@SQLITE
@pytest.mark.parametrize("how", ["terminated", "cancelled"])
async def test_a_workflow_ended_by_hand_is_restarted(
    scene: Scene, temporal_server: TemporalServer, how: str
) -> None:
    worker = await in_mid_campaign(scene, Provider.MAIL)
    client = await Client.connect(temporal_server.address)
    handle = client.get_workflow_handle(
        workflow_id(Work(WorkKind.RUN, DEFAULT_SCOPE.tenant_id, scene.run_id))
    )
    first = (await handle.describe()).run_id
    await (handle.terminate() if how == "terminated" else handle.cancel())
    assert not await has_ended(scene)
    await finishes(scene, worker)
    assert (await handle.describe()).run_id != first
