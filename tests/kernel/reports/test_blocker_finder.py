"""The blocker finder: reads what decides whether runs move, in a few statements for all of them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from outrider.bootstrap import Outrider
from outrider.cli.work import working
from outrider.domain.blocker_facts import BlockerCode
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.phases import Action
from outrider.domain.states import Channel, IntentStatus
from outrider.domain.targets import DoorState
from outrider.engines.process_identity import this_worker
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items, workers
from outrider.kernel.transactions.alerts import (
    Alert,
    AlertCode,
    raise_alert,
    resolve_in_workspace,
)
from outrider.kernel.transactions.paging import LAST
from outrider.kernel.transactions.workers import WorkerCard
from outrider.testing.store_suite.workshop import ONE, Workshop
from tests.support.controls import control
from tests.support.counted_store import CountedStore
from tests.support.eventually import eventually
from tests.support.foundations import foundation
from tests.support.noop_launches import NOOP, campaign_of, noop_launch
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import work_until_terminal
from tests.support.workflows import email, office

READS = 6
"""Runs, targets, their contract, live workers, workers without a row, and the last one seen."""


async def codes(outrider: Outrider, run_id: RunId) -> list[str]:
    return [each.code.value for each in await outrider.blocker_finder.of_run(run_id)]


async def test_a_run_says_why_it_waits_and_nothing_once_it_has_ended(
    noop_outrider: Outrider,
) -> None:
    outrider = noop_outrider
    run_id = await noop_launch(outrider)
    assert await codes(outrider, run_id) == ["NO_WORKER"]
    await outrider.target_keeper.pause(DEFAULT_SCOPE, NOOP, "ops")
    assert await codes(outrider, run_id) == ["TARGET_PAUSED"]
    campaign_id = await campaign_of(outrider, run_id)
    await control(outrider, campaign_id, Action.PAUSE)
    assert await codes(outrider, run_id) == ["PAUSED"]
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    (shown,) = (phase for phase in snapshot.phases if phase.run_id == run_id)
    assert [each.code for each in shown.blockers] == ["PAUSED"]
    await control(outrider, campaign_id, Action.RESUME)
    await outrider.target_keeper.resume(DEFAULT_SCOPE, NOOP, "ops")
    await work_until_terminal(outrider, run_id)
    assert await codes(outrider, run_id) == []


async def test_runs_are_counted_by_what_keeps_them_from_moving(noop_outrider: Outrider) -> None:
    """The metric has the answer of the pages, over pages of runs."""
    outrider = noop_outrider
    few = replace(outrider.foundation, limits=replace(outrider.limits, watcher_subjects=2))
    finder = BlockerFinder(few, lambda: outrider.registry_keeper.contracts())
    assert await finder.blocked_runs() == {}
    run_ids = [await noop_launch(outrider) for _ in range(3)]
    assert await finder.blocked_runs() == {BlockerCode.NO_WORKER: 3}
    await control(outrider, await campaign_of(outrider, run_ids[0]), Action.PAUSE)
    assert await finder.blocked_runs() == {BlockerCode.NO_WORKER: 2, BlockerCode.PAUSED: 1}
    await control(outrider, await campaign_of(outrider, run_ids[0]), Action.RESUME)
    for run_id in run_ids:
        await work_until_terminal(outrider, run_id)
    assert await finder.blocked_runs() == {}


async def test_a_closed_door_is_named_with_its_reason(
    noop_outrider: Outrider, database: str
) -> None:
    outrider = noop_outrider
    run_id = await noop_launch(outrider)
    (judged,) = await outrider.blocker_finder.judge([run_id])
    url = judged.at_targets[0].gateway_url
    now = outrider.clock.now().isoformat().replace("+00:00", "Z")
    async with raw_sql(database) as raw:
        await raw.run(
            "INSERT INTO target_doors (submission_target, gateway_url, workspace_id, tokens,"
            " refilled_at, updated_at, state, closed_at, opens_at, epoch, step, failures, reason)"
            f" VALUES ('{NOOP}', '{url}', '', 1, '{now}', '{now}', '{DoorState.DOWN}', '{now}',"
            f" '{now}', 1, 1, 20, 'connect: refused')"
        )
    (found,) = await outrider.blocker_finder.of_run(run_id)
    assert (found.code, found.submission_target) == ("TARGET_DOWN", NOOP)
    assert "connect: refused" in found.message


async def test_a_worker_that_went_silent_with_a_job_is_named(noop_outrider: Outrider) -> None:
    outrider = noop_outrider
    run_id = await noop_launch(outrider)
    (job,) = await Workshop(outrider.store).claim(ONE, now=outrider.clock.now())
    assert await codes(outrider, run_id) == [], "somebody has it"
    card = WorkerCard(WorkerId(ONE), "worker", "host", 7, "1", "local")
    ago = outrider.clock.now() - timedelta(seconds=outrider.limits.worker_silent_seconds + 1)
    await outrider.store.write(workers.seen(card, ago))
    (found,) = await outrider.blocker_finder.of_run(run_id)
    assert found.code == "NO_WORKER"
    assert f"The worker {ONE} holds 1 job" in found.message
    assert job.run_id == run_id
    await outrider.store.write(workers.seen(card, outrider.clock.now()))
    assert await codes(outrider, run_id) == []


async def test_many_runs_take_no_more_statements_than_one(noop_outrider: Outrider) -> None:
    outrider = noop_outrider
    run_ids = [await noop_launch(outrider) for _ in range(5)]
    counted = CountedStore(outrider.store)
    finder = BlockerFinder(foundation(counted), dict)
    found = await finder.of_runs(run_ids)
    assert {each.code for blockers in found.values() for each in blockers} == {"NO_WORKER"}
    assert len(found) == 5
    assert (counted.reads, counted.writes) == (READS, 0)


async def test_an_engine_that_another_process_found_away_is_named_until_its_alert_ends(
    noop_outrider: Outrider,
) -> None:
    outrider = noop_outrider
    run_id = await noop_launch(outrider)
    card = WorkerCard(this_worker(), "worker", "host", 7, "1", "temporal")
    await outrider.store.write(workers.seen(card, outrider.clock.now()))
    alert = Alert(DEFAULT_SCOPE, AlertCode.ENGINE_DOWN, "engine", "it is away")
    now = outrider.clock.now()
    await outrider.store.write(raise_alert(alert, outrider.ids, now))
    (found,) = await outrider.blocker_finder.of_run(run_id)
    assert (found.code, found.since) == ("ENGINE_DOWN", now)
    resolved = resolve_in_workspace(AlertCode.ENGINE_DOWN, "engine", DEFAULT_SCOPE, now)
    assert await outrider.store.write(resolved)
    assert await codes(outrider, run_id) == []


async def test_an_event_is_blocked_only_if_no_process_is_running(noop_outrider: Outrider) -> None:
    outrider = noop_outrider
    due_at = outrider.clock.now() - timedelta(minutes=1)
    (found,) = await outrider.blocker_finder.of_event(due_at)
    assert found.code == "NO_WORKER"
    card = WorkerCard(this_worker(), "server", "host", 7, "1", "local")
    await outrider.store.write(workers.seen(card, outrider.clock.now()))
    assert await outrider.blocker_finder.of_event(due_at) == []


async def test_a_single_message_says_what_its_lane_waits_for_and_nothing_once_it_is_sent(
    noop_outrider: Outrider,
) -> None:
    outrider = noop_outrider

    async def found() -> list[str]:
        intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, "one")
        whole = await outrider.store.read(ledger_items.whole(DEFAULT_SCOPE, intent.outbox_id))
        explained = await outrider.item_explainer.explain(DEFAULT_SCOPE, whole)
        for each in explained.blockers:
            assert f"{each.message} {each.hint}" in explained.sentences
        return [each.code.value for each in explained.blockers]

    await outrider.submissions.submit(DEFAULT_SCOPE, Submission("one", NOOP, {}, "{}"))
    assert await found() == ["NO_WORKER"]
    await outrider.target_keeper.pause(DEFAULT_SCOPE, NOOP, "ops")
    assert await found() == ["TARGET_PAUSED"]
    await outrider.target_keeper.resume(DEFAULT_SCOPE, NOOP, "ops")
    async with working(outrider):
        await eventually(lambda: _is_accepted(outrider, "one"))
    assert await found() == []


async def _is_accepted(outrider: Outrider, intent_id: str) -> bool:
    intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
    return intent.status == IntentStatus.ACCEPTED


async def test_many_messages_take_no_more_statements_than_one(noop_outrider: Outrider) -> None:
    outrider = noop_outrider
    for name in ("one", "two", "three"):
        await outrider.submissions.submit(DEFAULT_SCOPE, Submission(name, NOOP, {}, "{}"))
    lines, _ = await outrider.submissions.page(DEFAULT_SCOPE, LAST, 10)
    ids = [line.outbox_id for line in lines]
    items = await outrider.store.read(ledger_items.items(DEFAULT_SCOPE, ids))
    counted = CountedStore(outrider.store)
    finder = BlockerFinder(foundation(counted), dict)
    (blocker,) = await finder.of_items(DEFAULT_SCOPE, items)
    assert (blocker.code, len(items)) == ("NO_WORKER", 3)
    assert counted.reads <= READS


async def test_an_event_says_what_its_messages_wait_for(database: str, tmp_path: Path) -> None:
    async with office(database, tmp_path) as desk:
        await desk.rule("quote_sent", Channel.EMAIL, email())
        await desk.routed("quote_sent", event_id="q-1")
        explained = await desk.outrider.event_explainer.explain_whole(DEFAULT_SCOPE, "q-1")
        (blocker,) = explained.blockers
        assert blocker.code == "NO_WORKER"
        assert f"{blocker.message} {blocker.hint}" == explained.sentences[-1]
