"""The history backfiller: what was in the log before the history, once, however often it is run."""

from outrider.kernel.runs import history_backfiller
from outrider.kernel.runs.history_backfiller import Backfilled
from outrider.kernel.runs.history_verifier import Agreement
from outrider.ports.store import Store
from tests.support.history_scene import HistoryScene, KeptHistory


async def test_runs_from_before_the_history_are_written_and_a_repeat_writes_nothing(
    store: Store, monkeypatch: object
) -> None:
    monkeypatch.setattr(history_backfiller, "HISTORY_PAGE_RUNS", 2)  # type: ignore[attr-defined]
    monkeypatch.setattr(history_backfiller, "HISTORY_PAGE_EVENTS", 3)  # type: ignore[attr-defined]
    history = KeptHistory()
    scene = HistoryScene(store, history)
    runs = [await scene.run(steps=number) for number in range(5)]
    await scene.keeper.register()
    logged = await scene.logged(*runs)
    seen: list[int] = []
    done = await scene.backfiller.backfill(lambda each: seen.append(each.runs))
    assert (done.runs, done.filled, done.events) == (5, 5, len(logged))
    assert seen == [1, 2, 3, 4, 5]
    assert [each.event for _, each in sorted(history.events.items())] == logged
    assert len(history.snapshots) >= len(runs)
    again = await scene.backfiller.backfill(lambda _: None)
    assert again == Backfilled(runs=5)


async def test_events_both_queued_and_backfilled_are_written_once_and_the_queue_empties(
    store: Store,
) -> None:
    history = KeptHistory()
    scene = HistoryScene(store, history)
    old = await scene.run(steps=2)
    await scene.keeper.register()
    new = await scene.run(steps=2)
    await scene.backfiller.backfill(lambda _: None)
    assert (await scene.record()).waiting > 0
    await scene.relay().relay_all()
    assert (await scene.record()).waiting == 0
    assert len(history.events) == len(await scene.logged(old, new))
    compared = await scene.compared()
    assert {each.agreement for each in compared.values()} == {Agreement.SAME}
