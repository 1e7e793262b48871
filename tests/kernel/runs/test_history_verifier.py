"""The history verifier: what is missing, what is still queued, and what was changed."""

from dataclasses import replace

from outrider.domain.run_events import RunEventType
from outrider.kernel.runs.history_verifier import Agreement
from outrider.ports.history import EventKey
from outrider.ports.store import Store
from tests.support.history_scene import HistoryScene, KeptHistory


async def test_a_run_is_the_same_behind_or_incomplete(store: Store) -> None:
    history = KeptHistory()
    scene = HistoryScene(store, history)
    before = await scene.run(steps=1)
    await scene.keeper.register()
    written = await scene.run(steps=1)
    await scene.relay().relay_all()
    await scene.happen(written, RunEventType.STEP_STARTED, "later")
    compared = await scene.compared()
    assert compared[before].agreement is Agreement.INCOMPLETE
    assert compared[written].agreement is Agreement.BEHIND
    assert compared[written].log_events == compared[written].history_events + 1
    await scene.relay().relay_all()
    same = (await scene.compared(written))[written]
    assert same.agreement is Agreement.SAME
    assert same.log_hash == same.history_hash


async def test_an_event_changed_added_or_removed_in_the_history_is_found(store: Store) -> None:
    history = KeptHistory()
    scene = HistoryScene(store, history)
    await scene.keeper.register()
    run_id = await scene.run(steps=3)
    await scene.relay().relay_all()
    last = max(history.events)
    whole = dict(history.events)

    changed = whole[last]
    forged = replace(changed.event, payload={**changed.event.payload, "forged": True})
    history.events[last] = replace(changed, event=forged)
    found = (await scene.compared())[run_id]
    assert (found.agreement, found.different) == (Agreement.DIFFERS, [last.run_seq])
    assert found.log_hash != found.history_hash

    added = EventKey(run_id, last.run_seq + 1)
    history.events = {
        **whole,
        added: replace(changed, event=replace(forged, run_seq=added.run_seq)),
    }
    found = (await scene.compared())[run_id]
    assert (found.agreement, found.different) == (Agreement.DIFFERS, [added.run_seq])

    history.events = {place: each for place, each in whole.items() if place != last}
    found = (await scene.compared())[run_id]
    assert (found.agreement, found.different) == (Agreement.INCOMPLETE, [])


async def test_events_appended_during_a_comparison_are_not_a_difference(store: Store) -> None:
    history = KeptHistory()
    scene = HistoryScene(store, history)
    await scene.keeper.register()
    run_id = await scene.run(steps=1)
    await scene.relay().relay_all()
    read = history.events_after

    async def appended_meanwhile(*given: object) -> object:
        await scene.happen(run_id, RunEventType.STEP_STARTED, "meanwhile")
        await scene.relay().relay_all()
        await scene.happen(run_id, RunEventType.STEP_STARTED, "later still")
        return await read(*given)  # type: ignore[arg-type]

    history.events_after = appended_meanwhile  # type: ignore[assignment, method-assign]
    assert (await scene.compared())[run_id].agreement is Agreement.SAME
