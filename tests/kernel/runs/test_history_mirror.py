"""The history mirror on both stores: events and snapshots once, outages, refused events, lag."""

import json

from outrider.domain.bus_queues import HISTORY
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.run_events import RunEventType
from outrider.kernel.runs import history_mirror
from outrider.kernel.transactions import watching
from outrider.kernel.transactions.alerts import LAST, AlertCode, alerts_page
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.work.watcher import Look
from outrider.ports.history import EventKey
from outrider.ports.store import Store
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import at
from tests.support.history_scene import HistoryScene, KeptHistory


async def test_every_event_is_written_with_its_run_and_a_repeat_changes_nothing(
    store: Store,
) -> None:
    history = KeptHistory()
    scene = HistoryScene(store, history)
    await scene.keeper.register()
    runs = [await scene.run(steps=3) for _ in range(2)]
    logged = await scene.logged(*runs)
    assert await scene.relay().relay_all() == len(logged)
    assert [each.event for _, each in sorted(history.events.items())] == logged
    contexts = {each.context for each in history.events.values()}
    assert {each.phase for each in contexts} == {"launch"}
    assert {(each.tenant, each.project, each.environment) for each in contexts} == {
        ("default", "default", "default")
    }
    await scene.mirror.write([(DEFAULT_SCOPE, event) for event in logged])
    assert len(history.events) == len(logged)


async def test_a_snapshot_is_written_with_each_change_of_status_as_it_was_then(
    store: Store,
) -> None:
    history = KeptHistory()
    scene = HistoryScene(store, history)
    await scene.keeper.register()
    run_id = await scene.run(steps=2)
    await scene.happen(run_id, RunEventType.RUN_PAUSED, "signal:1")
    await scene.happen(run_id, RunEventType.RUN_RESUMED, "signal:2")
    await scene.relay().relay_all()
    changes = [
        event for event in await scene.logged(run_id) if event.type in history_mirror.CHANGES_STATUS
    ]
    assert sorted(history.snapshots) == [EventKey(run_id, event.run_seq) for event in changes]
    started, paused, resumed = (
        history.snapshots[place] for place in sorted(history.snapshots)[-3:]
    )
    assert (started.status, started.steps) == ("RUNNING", 0)
    assert (paused.status, paused.steps) == ("PAUSED", 2)
    assert (resumed.status, resumed.steps) == ("RUNNING", 2)
    document = json.loads(paused.document)
    assert document["lastEventSeq"] == paused.run_seq
    assert len(document["steps"]) == 2


async def test_a_snapshot_too_large_for_a_statement_is_written_without_its_steps(
    store: Store, monkeypatch: object
) -> None:
    history = KeptHistory()
    scene = HistoryScene(store, history)
    await scene.keeper.register()
    run_id = await scene.run(steps=3)
    await scene.happen(run_id, RunEventType.RUN_PAUSED, "signal:1")
    monkeypatch.setattr(history_mirror, "HISTORY_SNAPSHOT_MAX_BYTES", 100)  # type: ignore[attr-defined]
    await scene.relay().relay_all()
    newest = history.snapshots[max(history.snapshots)]
    assert newest.steps == 3
    assert json.loads(newest.document)["stepsOmitted"] == 3
    assert not json.loads(newest.document)["steps"]


async def test_a_history_away_for_days_loses_nothing_and_is_written_once_it_is_back(
    store: Store,
) -> None:
    """No event is given up, however often it was tried; only the first of a run is."""
    history, clock = KeptHistory(), FakeClock(at(0))
    scene = HistoryScene(store, history, clock)
    await scene.keeper.register()
    run_id = await scene.run(steps=5)
    relay = scene.relay(max_attempts=3)
    history.away = True
    for _ in range(30):
        await relay.relay_all()
        clock.advance(3_600)
    assert history.merges == 30
    record = await scene.record()
    assert (record.dead_letters, record.failed, record.published) == (0, 30, 0)
    assert await scene.keeper.last_error(HISTORY) == "history_unavailable"
    history.away = False
    assert await relay.relay_all() == len(history.events) == len(await scene.logged(run_id))
    assert (await scene.record()).waiting == 0


async def test_an_event_that_the_history_refuses_holds_up_its_own_run_only(store: Store) -> None:
    history, clock = KeptHistory(), FakeClock(at(0))
    scene = HistoryScene(store, history, clock)
    await scene.keeper.register()
    runs = [await scene.run(steps=3) for _ in range(2)]
    logged = await scene.logged(*runs)
    history.refused = {max(event.run_seq for event in logged)}
    relay = scene.relay(max_attempts=2)
    assert await relay.relay_all() == len(logged) - 2
    clock.advance(3_600)
    await relay.relay_all()
    letters = await scene.keeper.letters(DEFAULT_SCOPE, FIRST, 10, only_waiting=True)
    assert {(each.run_id, each.error) for each in letters} == {
        (run_id, "history_refused") for run_id in runs
    }
    history.refused = set()
    assert await scene.keeper.redrive_all(DEFAULT_SCOPE, "test") == 2
    await relay.relay_all()
    assert len(history.events) == len(logged)


async def test_the_watcher_tells_of_a_history_that_is_behind_until_it_has_caught_up(
    store: Store,
) -> None:
    from outrider.kernel.work.watcher import Watcher

    history, clock = KeptHistory(), FakeClock(at(0))
    scene = HistoryScene(store, history, clock)
    await scene.keeper.register()
    await scene.run(steps=1)
    history.away = True
    await scene.relay().relay_all()
    clock.advance(299)
    watcher = Watcher(scene.base, {}, None)  # type: ignore[arg-type]
    watcher.looks = [each for each in watcher.looks if each.code is AlertCode.HISTORY_BEHIND]
    assert [type(each) for each in watcher.looks] == [Look]

    async def opened() -> list[str]:
        await watcher.look_once()
        found = await store.read(alerts_page(DEFAULT_SCOPE, LAST, 10, only_open=True))
        return [each.code for each in found]

    assert await opened() == []
    clock.advance(2)
    assert await opened() == [AlertCode.HISTORY_BEHIND]
    found = await store.read(watching.late_history(clock.now(), 10))
    assert "history_unavailable" in str(found[0].message)
    history.away = False
    await scene.relay().relay_all()
    assert await opened() == []


async def test_the_lag_is_the_age_of_the_oldest_event_that_waits(store: Store) -> None:
    clock = FakeClock(at(0))
    scene = HistoryScene(store, KeptHistory(), clock)
    await scene.keeper.register()
    assert (await scene.record()).oldest_at is None
    await scene.run()
    oldest_at = (await scene.record()).oldest_at
    assert oldest_at is not None
    assert oldest_at <= clock.now()
    await scene.relay().relay_all()
    assert (await scene.record()).oldest_at is None


async def test_message_events_are_not_queued_for_the_history(store: Store) -> None:
    scene = HistoryScene(store, KeptHistory())
    await scene.keeper.register()
    from outrider.kernel.transactions import bus

    assert [each.name for each in await store.read(bus.sinks(10))] == [HISTORY]
