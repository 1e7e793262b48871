"""The bus keeper: sinks are registered once, counted, and forgotten with what waited for them."""

import pytest

from outrider.domain.errors import Conflict, NotFound
from outrider.kernel.bus.bus_keeper import BusKeeper
from outrider.ports.store import Store
from tests.support.bus_scene import SINK, Scene
from tests.support.foundations import foundation


async def test_a_registered_sink_has_every_later_event_waiting_for_it(store: Store) -> None:
    scene = Scene(store)
    (run_id,) = await scene.runs(1, events=3)
    await scene.keeper.register()
    assert (await scene.record()).waiting == len((await scene.logged(run_id))[run_id])


async def test_a_sink_is_forgotten_with_what_waited_once_the_settings_do_not_name_it(
    store: Store,
) -> None:
    scene = Scene(store)
    await scene.runs(1, events=3)
    waiting = (await scene.record()).waiting
    with pytest.raises(Conflict, match="settings still contain"):
        await scene.keeper.forget(SINK, "ops")
    keeper = BusKeeper(foundation(store, clock=scene.clock, ids=scene.ids, limits=scene.limits), [])
    assert await keeper.forget(SINK, "ops") == (waiting, 0)
    assert await keeper.sinks() == []
    with pytest.raises(NotFound):
        await keeper.forget(SINK, "ops")
