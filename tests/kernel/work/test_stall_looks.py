"""What the watcher finds among runs, workers, targets and doubts, in the words of the pages."""

from datetime import timedelta

from outrider.bootstrap import Outrider
from outrider.domain.ids import WorkerId
from outrider.kernel.transactions import workers
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.workers import WorkerCard
from outrider.kernel.work.stall_looks import ClosedTargets, MissingWorkers, Outage, StalledRuns
from outrider.testing.clock import FakeClock
from outrider.testing.store_suite.workshop import ONE, Workshop
from tests.support.noop_launches import noop_launch
from tests.support.raw_sql import raw_sql


async def test_a_run_that_waits_for_its_worker_is_stalled_after_a_while(
    noop_outrider: Outrider, database: str
) -> None:
    outrider = noop_outrider
    look = StalledRuns(outrider.foundation, outrider.blocker_finder)
    run_id = await noop_launch(outrider)
    assert await look.find() == []
    ago = outrider.clock.now() - timedelta(minutes=1)
    at = ago.isoformat().replace("+00:00", "Z")
    async with raw_sql(database) as raw:
        await raw.run(f"UPDATE job_queue SET run_at = '{at}'")
        await raw.run(f"UPDATE campaign_runs SET scheduled_for = '{at}', created_at = '{at}'")
        await raw.run(f"UPDATE campaign_phases SET updated_at = '{at}'")
    (found,) = await look.find()
    assert (found.subject, found.since) == (run_id, ago)
    assert found.detail is not None
    assert found.detail["cause"] == "NO_WORKER"


async def test_a_silent_worker_is_named_until_it_reports_again(noop_outrider: Outrider) -> None:
    outrider = noop_outrider
    look = MissingWorkers(outrider.foundation)
    await noop_launch(outrider)
    await Workshop(outrider.store).claim(ONE, now=outrider.clock.now())
    card = WorkerCard(WorkerId(ONE), "worker", "host", 7, "1", "local")
    ago = outrider.clock.now() - timedelta(minutes=1)
    await outrider.store.write(workers.seen(card, ago))
    (found,) = await look.find()
    assert found.subject == ONE
    assert "has not reported since" in (found.message or "")
    await outrider.store.write(workers.seen(card, outrider.clock.now()))
    assert await look.find() == []


async def test_a_target_that_asked_for_a_long_wait_is_found_without_being_called(
    noop_outrider: Outrider, database: str
) -> None:
    outrider = noop_outrider
    look = ClosedTargets(outrider.foundation)
    ago = (outrider.clock.now() - timedelta(minutes=1)).isoformat().replace("+00:00", "Z")
    async with raw_sql(database) as raw:
        await raw.run(
            "INSERT INTO target_doors (submission_target, gateway_url, workspace_id, tokens,"
            " refilled_at, updated_at, state, closed_at, opens_at, epoch, step, failures, reason)"
            f" VALUES ('sms', 'http://one.test', '', 1, '{ago}', '{ago}', 'throttled', '{ago}',"
            f" '{ago}', 1, 1, 0, 'HTTP 503')"
        )
    (found,) = await look.find()
    assert found.subject == "sms"
    assert "asks to retry later" in (found.message or "")
    assert found.code is AlertCode.TARGET_THROTTLED


def test_an_outage_is_said_once_and_then_once_a_minute() -> None:
    clock = FakeClock()
    outage = Outage(clock.now, 60)
    said = []
    for _ in range(121):
        said.append(outage.seen())
        clock.advance(1)
    assert [each for each in said if each] == ["database_down"] + ["database_still_down"] * 2
    assert outage.since is not None
    assert outage.over() == 121
    assert outage.since is None
    assert outage.over() is None
