"""The blocker finder: reads what decides whether runs move, in a few statements for all of them."""

from datetime import timedelta

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.phases import Action
from outrider.domain.targets import DoorState
from outrider.engines.process_identity import this_worker
from outrider.kernel.reports.blocker_finder import BlockerFinder
from outrider.kernel.transactions import workers
from outrider.kernel.transactions.workers import WorkerCard
from outrider.testing.store_suite.workshop import ONE, Workshop
from tests.support.controls import control
from tests.support.counted_store import CountedStore
from tests.support.foundations import foundation
from tests.support.noop_launches import NOOP, campaign_of, noop_launch
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import work_until_terminal

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


async def test_an_event_is_blocked_only_where_nobody_runs(noop_outrider: Outrider) -> None:
    outrider = noop_outrider
    due_at = outrider.clock.now() - timedelta(minutes=1)
    (found,) = await outrider.blocker_finder.of_event(due_at)
    assert found.code == "NO_WORKER"
    card = WorkerCard(this_worker(), "server", "host", 7, "1", "local")
    await outrider.store.write(workers.seen(card, outrider.clock.now()))
    assert await outrider.blocker_finder.of_event(due_at) == []
