"""CM: a phase or a run that was changed by SQL, past the API, finds back to the other."""

import asyncio
from dataclasses import replace

import asyncpg
import pytest
from structlog.testing import capture_logs

from outrider.bootstrap import Outrider
from outrider.domain.errors import InvalidPhaseTransition
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import RunStatus
from outrider.kernel.control.phase_restorer import PhaseRestorer
from outrider.kernel.transactions import phase_repairs
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.phase_controls import Control
from outrider.kernel.transactions.phase_repairs import (
    ChangedMeanwhile,
    RunLeftRunning,
    count_bypasses,
)
from outrider.testing.launches import ACTOR, WATCH_SECONDS, observe
from tests.kernel.control.test_phase_controller import (
    PATIENCE_SECONDS,
    control,
    created,
    log_path,
    outrider,
    phase_state,
    sandbox,
)
from tests.support.controls import events_of, lifecycle
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import working

__all__ = ["log_path", "outrider", "sandbox"]

PEOPLE = 60


async def begun(outrider: Outrider, *, paused: bool = False) -> tuple[CampaignId, RunId]:
    campaign_id = await created(outrider, PEOPLE)
    answer = await control(outrider, campaign_id, Action.START)
    assert answer.run_id is not None
    if paused:
        await control(outrider, campaign_id, Action.PAUSE)
    return campaign_id, answer.run_id


async def written(database: str, campaign_id: CampaignId, change: str) -> None:
    async with raw_sql(database) as raw:
        await raw.run(f"UPDATE campaign_phases SET {change} WHERE campaign_id = '{campaign_id}'")


async def jobs_of(database: str, run_id: RunId) -> set[tuple[bool, bool]]:
    """Paused and cancelled, of the run's jobs."""
    async with raw_sql(database) as raw:
        rows = await raw.run(f"SELECT paused, cancelled FROM job_queue WHERE run_id = '{run_id}'")
    return {(bool(paused), bool(cancelled)) for paused, cancelled in rows}


async def ended(outrider: Outrider, run_id: RunId) -> tuple[RunStatus, Accounting]:
    async with working(outrider), asyncio.timeout(PATIENCE_SECONDS):
        while True:
            run, accounting = await observe(outrider, run_id)
            if run.finished_at is not None:
                return RunStatus(run.status), accounting
            await asyncio.sleep(WATCH_SECONDS)


async def test_a_phase_paused_by_sql_pauses_its_run_and_its_stream_shows_it(
    outrider: Outrider, database: str
) -> None:
    campaign_id, run_id = await begun(outrider)
    await written(database, campaign_id, "state = 'paused'")
    assert await outrider.phase_restorer.restore() == 1
    assert await outrider.phase_restorer.restore() == 0
    assert await jobs_of(database, run_id) == {(True, False)}
    assert await lifecycle(outrider, campaign_id) == ["phase_started", "phase_paused"]
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    last = (await events_of(outrider, campaign_id))[-1]
    assert snapshot.last_sequence == last.sequence
    assert '"repaired":true' in last.payload
    await control(outrider, campaign_id, Action.RESUME)
    status, accounting = await ended(outrider, run_id)
    assert (status, accounting.sent) == (RunStatus.COMPLETED, PEOPLE)


async def test_a_phase_resumed_by_sql_resumes_its_run(outrider: Outrider, database: str) -> None:
    campaign_id, run_id = await begun(outrider, paused=True)
    await written(database, campaign_id, "state = 'in_progress'")
    assert await outrider.phase_restorer.restore() == 1
    assert await jobs_of(database, run_id) == {(False, False)}
    status, accounting = await ended(outrider, run_id)
    assert (status, accounting.sent) == (RunStatus.COMPLETED, PEOPLE)
    assert await phase_state(outrider, campaign_id) == "completed"


@pytest.mark.parametrize("state", ["completed", "failed", "not_started"])
@pytest.mark.parametrize("paused", [False, True])
async def test_a_phase_ended_by_sql_stops_its_run(
    outrider: Outrider, database: str, state: str, paused: bool
) -> None:
    campaign_id, run_id = await begun(outrider, paused=paused)
    await written(database, campaign_id, f"state = '{state}'")
    assert await outrider.phase_restorer.restore() == 1
    assert await outrider.phase_restorer.restore() == 0
    assert await jobs_of(database, run_id) == {(False, True)}
    status, accounting = await ended(outrider, run_id)
    assert (status, accounting.skipped) == (RunStatus.FAILED, PEOPLE)
    assert await phase_state(outrider, campaign_id) == state
    async with raw_sql(database) as raw:
        followed = await raw.run(
            "SELECT actor FROM campaign_audit_log WHERE event = 'run.followed_phase'"
        )
    assert followed == [("phase_restorer",)]


@pytest.mark.parametrize("state", ["completed", "failed", "not_started"])
@pytest.mark.parametrize("whole_campaign", [False, True])
async def test_a_stop_brakes_a_run_whatever_sql_wrote_over_its_phase(
    outrider: Outrider, database: str, state: str, whole_campaign: bool
) -> None:
    campaign_id, run_id = await begun(outrider)
    await written(database, campaign_id, f"state = '{state}'")
    if whole_campaign:
        stop = Control(Action.STOP, ACTOR)
        answer = await outrider.phase_controller.stop_campaign(DEFAULT_SCOPE, campaign_id, stop)
    else:
        answer = await control(outrider, campaign_id, Action.STOP)
    assert (answer.changed, answer.state.value) == (True, "failed")
    assert await jobs_of(database, run_id) == {(False, True)}
    status, accounting = await ended(outrider, run_id)
    assert (status, accounting.skipped) == (RunStatus.FAILED, PEOPLE)
    events = ["phase_started", "phase_resumed", "phase_failed"]
    assert await lifecycle(outrider, campaign_id) == events
    # The hand's change and the one back are both on record, and nothing is left to repair.
    assert await outrider.store.read(count_bypasses()) == 2
    assert await outrider.phase_restorer.restore() == 0
    if state == "completed":
        again = await control(outrider, campaign_id, Action.RETRY)
        assert again.run_id != run_id


async def test_a_stop_also_stops_a_run_that_its_phase_no_longer_names(
    outrider: Outrider, database: str
) -> None:
    campaign_id, run_id = await begun(outrider)
    await written(database, campaign_id, "run_id = NULL, state = 'completed'")
    await control(outrider, campaign_id, Action.STOP)
    assert await jobs_of(database, run_id) == {(False, True)}
    assert (await ended(outrider, run_id))[0] is RunStatus.FAILED


async def test_a_completed_phase_still_refuses_to_be_stopped(outrider: Outrider) -> None:
    campaign_id, run_id = await begun(outrider)
    await ended(outrider, run_id)
    with pytest.raises(InvalidPhaseTransition):
        await control(outrider, campaign_id, Action.STOP)


async def test_a_run_that_no_phase_names_is_stopped(outrider: Outrider, database: str) -> None:
    campaign_id, run_id = await begun(outrider)
    await written(database, campaign_id, "run_id = NULL")
    with capture_logs() as logged:
        assert await outrider.phase_restorer.restore() == 2
    (stopped,) = (line for line in logged if line["event"] == "run_stopped")
    assert (stopped["run_id"], stopped["phase"]) == (run_id, "launch")
    assert stopped["reason"] == "no phase names it"
    assert await phase_state(outrider, campaign_id) == "failed"
    assert (await ended(outrider, run_id))[1].skipped == PEOPLE


async def test_a_phase_that_was_stopped_and_set_going_by_sql_fails_again(
    outrider: Outrider, database: str
) -> None:
    campaign_id, run_id = await begun(outrider)
    await control(outrider, campaign_id, Action.STOP)
    await written(database, campaign_id, "state = 'paused'")
    assert await outrider.phase_restorer.restore() == 1
    assert await phase_state(outrider, campaign_id) == "failed"
    assert (await ended(outrider, run_id))[1].skipped == PEOPLE


async def test_a_run_ended_by_hand_ends_its_phase_and_no_more_calls_are_made(
    outrider: Outrider, database: str
) -> None:
    campaign_id, run_id = await begun(outrider)
    async with raw_sql(database) as raw:
        await raw.complete_runs(campaign_id)
    assert await outrider.phase_restorer.restore() == 1
    assert await phase_state(outrider, campaign_id) == "completed"
    async with working(outrider), asyncio.timeout(PATIENCE_SECONDS), raw_sql(database) as raw:
        left = f"SELECT count(*) FROM job_queue WHERE run_id = '{run_id}' AND outcome IS NULL"
        while True:
            if not await raw.value(left):
                break
            await asyncio.sleep(WATCH_SECONDS)
    assert (await observe(outrider, run_id))[1].skipped == PEOPLE


async def test_every_phase_is_repaired_however_many_there_are(
    outrider: Outrider, database: str
) -> None:
    """CM: restoring used to end after 100 phases."""
    limits = replace(outrider.limits, bypass_page=7)
    campaigns = [(await begun(outrider))[0] for _ in range(23)]
    async with raw_sql(database) as raw:
        await raw.complete_runs()
    restorer = PhaseRestorer(
        replace(outrider.foundation, limits=limits), outrider.hub, outrider.engine_notifier
    )
    assert await restorer.restore() == len(campaigns)
    assert {await phase_state(outrider, each) for each in campaigns} == {"completed"}
    # What was done to them is a bypass too; each was logged, and none is left to read.
    assert await outrider.store.read(phase_repairs.unread_bypasses(FIRST, 100)) == []


async def test_a_bypass_made_while_no_server_runs_is_logged_by_the_next_one_and_only_once(
    outrider: Outrider, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """CM: whoever started later began to read after it."""
    campaign_id, _ = await begun(outrider)
    await written(database, campaign_id, "state = 'failed'")
    capsys.readouterr()
    for times in (1, 0):
        restorer = PhaseRestorer(outrider.foundation, outrider.hub, outrider.engine_notifier)
        await restorer.restore()
        printed = capsys.readouterr()
        lines = (printed.out + printed.err).splitlines()
        told = [line for line in lines if "Transition bypass detected" in line]
        assert len(told) == times, told


async def test_a_stop_that_the_hand_took_back_meanwhile_leaves_nothing_behind(
    outrider: Outrider, database: str
) -> None:
    """CM: the jobs were cancelled for good by a restorer that had decided not to stop the run."""
    if not database.startswith("postgres"):
        pytest.skip("a transaction of SQLite has the file to itself")
    campaign_id, run_id = await begun(outrider)
    await written(database, campaign_id, "state = 'failed'")
    hand = await asyncpg.connect(database)
    try:
        async with hand.transaction():
            await hand.execute(f"SELECT 1 FROM job_queue WHERE run_id = '{run_id}' FOR UPDATE")
            restoring = asyncio.create_task(outrider.phase_restorer.restore())
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND wait_event_type = 'Lock'"
            )

            async def is_so() -> bool:
                return bool(await hand.fetchval(waiting))

            await eventually(is_so, seconds=PATIENCE_SECONDS)
            await written(database, campaign_id, "state = 'in_progress'")
    finally:
        await hand.close()
    await restoring
    assert await jobs_of(database, run_id) == {(False, False)}
    status, accounting = await ended(outrider, run_id)
    assert (status, accounting.sent) == (RunStatus.COMPLETED, PEOPLE)


async def test_a_left_over_run_that_has_ended_meanwhile_is_not_stopped(
    outrider: Outrider, database: str
) -> None:
    """CM: its log had a stop after its end."""
    campaign_id, run_id = await begun(outrider)
    await ended(outrider, run_id)
    await written(database, campaign_id, "run_id = NULL")
    events = f"SELECT count(*) FROM run_events WHERE run_id = '{run_id}'"
    async with raw_sql(database) as raw:
        before = await raw.value(events)
    left = RunLeftRunning(run_id, campaign_id, "launch")
    with pytest.raises(ChangedMeanwhile):
        await outrider.store.write(
            phase_repairs.stop_left_over(left, outrider.ids, outrider.clock.now())
        )
    async with raw_sql(database) as raw:
        assert await raw.value(events) == before
