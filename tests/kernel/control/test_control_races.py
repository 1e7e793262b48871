"""Controls at the worst moment: what an earlier run left behind, and what happens in between.

Interleavings are forced: a transaction is held just before one of its statements while another
one runs to its end. SQLite has one writer, so only Postgres has those.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import msgspec
import pytest

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import InvalidPhaseTransition, PreconditionFailed
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import AUDIENCE_IMPORT, PROGRESS_EVENT, Action
from outrider.domain.retry import RetrySchedule
from outrider.domain.states import ItemStatus, PhaseState, RunStatus
from outrider.gateways.sandbox import Faults, references_delivered
from outrider.kernel.control.phase_restorer import PhaseRestorer
from outrider.kernel.transactions import jobs, lost_jobs, run_jobs
from outrider.kernel.transactions.audience_scripts import AudienceAnswer
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.limits.kernel import Limits
from outrider.ports.store import Result, Transaction
from outrider.testing.launches import ACTOR, observe, target
from outrider.testing.store_suite.workshop import ONE
from tests.support.broken_server import HoldingSandbox
from tests.support.controls import (
    PATIENCE_SECONDS,
    before_statement,
    begun,
    control,
    created,
    events_of,
    lifecycle,
    phase_state,
    until,
    until_ended,
    until_run,
    until_state,
)
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import items_of, opened, working

POSTGRES = pytest.mark.parametrize("database", ["postgres"], indirect=True)
FAR_SECONDS = 3_600


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "provider.ndjson"


@pytest.fixture
async def sandbox(log_path: Path) -> AsyncIterator[HoldingSandbox]:
    async with HoldingSandbox(Faults(seed=7), log_path=log_path) as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(
    database: str, tmp_path: Path, sandbox: HoldingSandbox
) -> AsyncIterator[Outrider]:
    targets = [
        target("sms.all", "sms", sandbox.http_url, maxAttempts=50),
        target("smtp.all", "smtp", sandbox.smtp_url, maxAttempts=50),
    ]
    async with opened(database, tmp_path, *targets) as outrider:
        yield outrider


async def called(sandbox: HoldingSandbox, times: int) -> None:
    await until(lambda: sandbox.requests >= times)


async def stopped_with_doubts(
    outrider: Outrider,
    sandbox: HoldingSandbox,
    count: int = 40,
    *,
    batch_size: int | None = None,
    order: tuple[str, ...] = (LAUNCH,),
) -> tuple[CampaignId, RunId]:
    """A launch of mails, stopped, some of whose calls never had an answer."""
    # One job and one window of mails: so few silences that the target's breaker stays closed.
    campaign_id = await created(
        outrider, count, order=order, target="smtp.all", batch_size=batch_size or count
    )
    sandbox.change_faults({"dropRate": 1})
    sandbox.answers.clear()
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await called(sandbox, 1)
        await control(outrider, campaign_id, Action.STOP)
        sandbox.answers.set()
        left = await until_run(outrider, run_id, lambda _, counted: counted.waiting == 0)
    assert left.in_doubt
    assert left.skipped
    sandbox.change_faults({"dropRate": 0})
    return campaign_id, run_id


async def settle_doubts(outrider: Outrider, run_id: RunId, verdict: DoubtVerdict) -> None:
    settled = await outrider.doubt_resolver.reconcile(
        DEFAULT_SCOPE, run_id=run_id, received=set(), absent=verdict, evidence="seen", actor=ACTOR
    )
    assert not settled.left


# What an earlier run left behind


async def test_verdicts_on_a_stopped_runs_doubts_leave_its_paused_retry_paused(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id, first = await stopped_with_doubts(outrider, sandbox)
    retried = await control(outrider, campaign_id, Action.RETRY)
    assert retried.run_id not in (None, first)
    await control(outrider, campaign_id, Action.PAUSE)
    await settle_doubts(outrider, first, DoubtVerdict.FAILED)
    async with working(outrider):
        await until_ended(outrider, first)
        assert await phase_state(outrider, campaign_id) is PhaseState.PAUSED
        await control(outrider, campaign_id, Action.RESUME)
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)


async def test_a_stopped_run_that_ends_late_does_not_change_a_phase_that_has_moved_on(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id, first = await stopped_with_doubts(outrider, sandbox)
    await control(outrider, campaign_id, Action.RETRY)
    async with working(outrider):
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)
        await settle_doubts(outrider, first, DoubtVerdict.SENT)
        await until_ended(outrider, first)
    assert await lifecycle(outrider, campaign_id) == [
        "phase_started", "phase_failed", "phase_started", "phase_completed",
    ]  # fmt: skip


async def test_a_stop_does_not_wait_for_the_next_attempt_of_what_was_being_called(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """The next attempt would come in an hour when somebody stops the campaign."""
    sandbox.change_faults({"failRate": 1})
    sandbox.answers.clear()
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    async with working(outrider, retry=RetrySchedule(first_seconds=FAR_SECONDS)):
        await called(sandbox, 10)
        await control(outrider, campaign_id, Action.STOP)
        sandbox.answers.set()
        ended = await until_ended(outrider, run_id)
        assert (ended.failed, ended.skipped, ended.sent) == (10, 0, 0)
        sandbox.change_faults({"failRate": 0})
        retried = await control(outrider, campaign_id, Action.RETRY)
        assert retried.changed


async def test_a_stop_does_not_wait_until_a_provider_takes_calls_again(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """It asks to be left alone for an hour while somebody stops the campaign: what it turned away
    was never attempted, and is skipped like what was never called."""
    sandbox.change_faults({"throttleRate": 1, "retryAfterSeconds": FAR_SECONDS})
    sandbox.answers.clear()
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await called(sandbox, 10)
        await control(outrider, campaign_id, Action.STOP)
        sandbox.answers.set()
        ended = await until_ended(outrider, run_id)
        assert (ended.skipped, ended.failed, ended.sent) == (10, 0, 0)
        sandbox.change_faults({"throttleRate": 0})
        retried = await control(outrider, campaign_id, Action.RETRY)
        assert retried.changed


async def test_a_stop_does_not_wait_until_a_job_that_failed_meanwhile_is_due_again(
    outrider: Outrider, sandbox: HoldingSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.answers.clear()
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    monkeypatch.setattr(
        "outrider.kernel.work.job_releaser.JOB.__class__.delay_seconds",
        lambda *_, **__: FAR_SECONDS,
    )

    def broken(*_: object) -> Transaction[Result]:
        raise OSError("the disk is full")
        yield

    async with working(outrider):
        await called(sandbox, 10)
        with monkeypatch.context() as patched:
            patched.setattr("outrider.kernel.delivery.campaign_delivery.settle_job", broken)
            await control(outrider, campaign_id, Action.STOP)
            sandbox.answers.set()
            await until_run(outrider, run_id, lambda _, counted: counted.sent == 10)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    (count,) = await outrider.store.read(run_jobs.job_counts(run_id))
                    if count.attempts:
                        break
                    await asyncio.sleep(0.01)
        await until_ended(outrider, run_id)


async def test_a_retry_after_a_stop_without_a_remainder_completes_the_phase(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """Else there would be no way on: neither retry nor rerun, and nothing that comes after it."""
    sandbox.answers.clear()
    campaign_id = await created(outrider, 10, order=(LAUNCH, "report"))
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await called(sandbox, 10)
        await control(outrider, campaign_id, Action.STOP)
        sandbox.answers.set()
        ended = await until_ended(outrider, run_id)
        assert ended.sent == 10
        assert await phase_state(outrider, campaign_id) is PhaseState.FAILED
        retried = await control(outrider, campaign_id, Action.RETRY)
        assert (retried.changed, retried.state) == (True, PhaseState.COMPLETED)
        await begun(outrider, campaign_id, "report")
        await until_state(outrider, campaign_id, PhaseState.COMPLETED, "report")
    assert sandbox.requests == 10


async def test_a_retry_is_refused_while_all_that_is_left_is_in_doubt(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    sandbox.change_faults({"dropRate": 1})
    sandbox.answers.clear()
    campaign_id = await created(outrider, 5, target="smtp.all")
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await called(sandbox, 5)
        await control(outrider, campaign_id, Action.STOP)
        sandbox.answers.set()
        await until_run(outrider, run_id, lambda _, counted: counted.in_doubt == 5)
        with pytest.raises(PreconditionFailed, match="left nobody to send to"):
            await control(outrider, campaign_id, Action.RETRY)
        await settle_doubts(outrider, run_id, DoubtVerdict.FAILED)
        await until_ended(outrider, run_id)
        sandbox.change_faults({"dropRate": 0})
        await control(outrider, campaign_id, Action.RETRY)
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)


async def test_an_item_in_doubt_when_its_run_was_stopped_is_not_called_again_in_vain(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """A gateway that dedupes is asked by calling it again, which a stop forbids."""
    sandbox.change_faults({"dropRate": 1})
    sandbox.answers.clear()
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await called(sandbox, 10)
        await control(outrider, campaign_id, Action.STOP)
        sandbox.answers.set()
        await until_run(outrider, run_id, lambda _, counted: counted.waiting == 0)
        asked = await outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE, run_id=run_id, received=None, absent=None, evidence="", actor=ACTOR
        )
        assert (asked.asked_again, asked.left) == (0, 10)
        assert sandbox.requests == 10


async def test_a_run_ends_although_a_hand_in_the_database_ended_its_phase_before(
    outrider: Outrider, database: str
) -> None:
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    async with raw_sql(database) as raw:
        await raw.run(f"UPDATE campaign_phases SET state = 'failed' WHERE run_id = '{run_id}'")
    async with working(outrider):
        ended = await until_ended(outrider, run_id)
    assert ended.sent == 10
    assert await phase_state(outrider, campaign_id) is PhaseState.FAILED


# What happens in between


async def test_an_upload_that_comes_while_its_import_is_being_planned_is_imported_too(
    outrider: Outrider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await created(outrider, 10, order=(AUDIENCE_IMPORT, LAUNCH))
    late = tmp_path / "late.csv"
    late.write_text("id,phone\nlate-1,+447700900001\n")
    handler = outrider.handlers[AUDIENCE_IMPORT]
    plan = handler.plan
    came: list[AudienceAnswer] = []

    async def planned(context: object) -> object:
        plans = await plan(context)  # type: ignore[arg-type]
        if not came:
            came.append(await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, late, ACTOR))
        return plans

    monkeypatch.setattr(handler, "plan", planned)
    async with working(outrider):
        await begun(outrider, campaign_id, AUDIENCE_IMPORT)
        await until_state(outrider, campaign_id, PhaseState.COMPLETED, AUDIENCE_IMPORT)
    assert [answer.staged for answer in came] == [True]
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    assert snapshot.audience_size == 11


async def test_a_rerun_requested_just_before_the_phase_ends_still_has_its_jobs(
    outrider: Outrider, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign_id = await created(outrider, 10, order=(AUDIENCE_IMPORT, LAUNCH))
    first = await begun(outrider, campaign_id, AUDIENCE_IMPORT)
    look = outrider.phase_controller._scripts.read_phases
    looks: list[object] = []

    def looked(*given: object) -> object:
        looks.append(given)
        return look(*given)  # type: ignore[arg-type]

    read = outrider.store.read

    async def read_and_end(script: Transaction[Result]) -> Result:
        found = await read(script)
        if len(looks) == 1:
            looks.append("ended")
            async with working(outrider):
                await until_ended(outrider, first)
        return found

    monkeypatch.setattr(outrider.phase_controller._scripts, "read_phases", looked)
    monkeypatch.setattr(outrider.store, "read", read_and_end)
    rerun = await control(outrider, campaign_id, Action.RERUN, AUDIENCE_IMPORT)
    monkeypatch.undo()
    assert rerun.changed
    run, accounting = await observe(outrider, RunId(str(rerun.run_id)))
    assert (run.status, accounting.intended) == ("queued", 10)


@POSTGRES
async def test_two_concurrent_files_are_distinguished(outrider: Outrider, tmp_path: Path) -> None:
    campaign_id = await created(outrider, 10)
    paths = [tmp_path / f"more-{number}.csv" for number in range(2)]
    for number, path in enumerate(paths):
        path.write_text(f"id,phone\nnew-{number},+44770090000{number}\n")

    async def meanwhile() -> None:
        await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, paths[1], ACTOR)

    with before_statement("serialise_controls", meanwhile):
        added = await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, paths[0], ACTOR)
    assert added.recipients == 1
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    assert snapshot.audience_size == 12


@POSTGRES
async def test_a_retry_and_the_late_end_of_the_run_before_it_do_not_wait_for_each_other(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider, 10)
    first = await begun(outrider, campaign_id)
    await control(outrider, campaign_id, Action.STOP)
    settling, go_on = asyncio.Event(), asyncio.Event()

    async def held() -> None:
        settling.set()
        await go_on.wait()

    with before_statement("lock_phase", held):
        async with working(outrider):
            async with asyncio.timeout(PATIENCE_SECONDS):
                await settling.wait()
            # The old run's last job and the run itself are locked now; its phase is next.
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    retried = await control(outrider, campaign_id, Action.RETRY)
            finally:
                go_on.set()
            await until_ended(outrider, first)
            await until_state(outrider, campaign_id, PhaseState.COMPLETED)
    assert retried.changed


@POSTGRES
async def test_a_stop_that_came_too_late_leaves_no_mark_on_the_run_that_failed_before_it(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    sandbox.change_faults({"failRate": 1})
    campaign_id = await created(outrider, 10)
    async with raw_sql(outrider.settings.database_url) as raw:
        run_id = await begun(outrider, campaign_id)

        async def meanwhile() -> None:
            async with working(outrider):
                await until_ended(outrider, run_id)

        with before_statement("cancel_jobs", meanwhile):
            stopped = await control(outrider, campaign_id, Action.STOP)
        run, _ = await observe(outrider, run_id)
        assert (stopped.changed, stopped.state, run.status) == (False, PhaseState.FAILED, "failed")
        assert run.stopped_at is None
        assert await raw.value("SELECT count(*) FROM job_queue WHERE cancelled") == 0


@POSTGRES
async def test_a_pause_that_came_too_late_is_refused_and_changes_nothing(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)

    async def meanwhile() -> None:
        async with working(outrider):
            await until_ended(outrider, run_id)

    with before_statement("pause_jobs", meanwhile), pytest.raises(InvalidPhaseTransition):
        await control(outrider, campaign_id, Action.PAUSE)
    assert await phase_state(outrider, campaign_id) is PhaseState.COMPLETED


@POSTGRES
@pytest.mark.parametrize("verdict", [DoubtVerdict.RESUBMIT, DoubtVerdict.FAILED])
@pytest.mark.parametrize("moment", ["exclude_unsettled", "count_remainder"])
async def test_a_verdict_that_comes_while_a_retry_is_planned_cannot_unbalance_its_jobs(
    outrider: Outrider,
    sandbox: HoldingSandbox,
    log_path: Path,
    verdict: DoubtVerdict,
    moment: str,
) -> None:
    campaign_id, first = await stopped_with_doubts(outrider, sandbox)

    async def meanwhile() -> None:
        await settle_doubts(outrider, first, verdict)

    with before_statement(moment, meanwhile):
        retried = await control(outrider, campaign_id, Action.RETRY)
    # The stopped run is swept up before its retry looks at what is left of it.
    await control(outrider, campaign_id, Action.PAUSE)
    async with working(outrider):
        await until_ended(outrider, first)
        await control(outrider, campaign_id, Action.RESUME)
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)
    run, accounting = await observe(outrider, RunId(str(retried.run_id)))
    assert (run.status, accounting.sent) == (RunStatus.COMPLETED, accounting.intended)
    items = await items_of(outrider, run.id)
    assert {item.status for item in items.values()} == {ItemStatus.SENT}
    assert set(references_delivered(log_path).values()) == {1}


@POSTGRES
async def test_two_servers_that_start_together_repair_a_phase_once(
    outrider: Outrider, database: str
) -> None:
    campaign_id = await created(outrider, 5)
    await begun(outrider, campaign_id)
    async with raw_sql(database) as raw:
        await raw.complete_runs()
    async with open_outrider(outrider.settings) as other:
        restorers = [
            PhaseRestorer(each.foundation, each.hub, each.engine_notifier)
            for each in (outrider, other)
        ]
        second: list[asyncio.Task[int]] = []

        async def meanwhile() -> None:
            second.append(asyncio.create_task(restorers[1].restore()))
            # The other server has looked, or waits for us to have repaired it.
            await asyncio.wait(second, timeout=0.5)

        with before_statement("set_phase_direct", meanwhile):
            repaired = await restorers[0].restore()
        assert sorted([repaired, await second[0]]) == [0, 1]
    events = [event.type for event in await events_of(outrider, campaign_id)]
    assert events == ["phase_started", "phase_completed"]


@POSTGRES
async def test_the_accounting_of_a_progress_event_adds_up_whatever_ends_while_it_is_counted(
    outrider: Outrider,
) -> None:
    reporter = ProgressReporter(
        replace(outrider.foundation, limits=Limits(progress_seconds=0)), outrider.hub
    )
    campaign_id = await created(outrider, 20)
    run_id = await begun(outrider, campaign_id)
    async with raw_sql(outrider.settings.database_url) as raw:
        # One of its two jobs is not due for long, so that the phase is still in progress.
        await raw.run(
            "UPDATE job_queue SET run_at = now() + interval '1 hour'"
            " WHERE id = (SELECT max(id::text)::uuid FROM job_queue)"
        )

    async def meanwhile() -> None:
        async with working(outrider):
            await until_run(outrider, run_id, lambda _, counted: counted.sent == 10)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    counts = await outrider.store.read(run_jobs.job_counts(run_id))
                    if "completed" in {count.status for count in counts}:
                        break
                    await asyncio.sleep(0.01)

    with before_statement("count_unfinished_jobs", meanwhile):
        assert await reporter.report_once() == 1
    for event in await events_of(outrider, campaign_id):
        if event.type == PROGRESS_EVENT:
            told = msgspec.json.decode(event.payload)["accounting"]
            assert Accounting(
                told["intended"], told["waiting"], told["inDoubt"], told["sent"], told["failed"],
                told["skipped"],
            ).holds, told  # fmt: skip


# The very end of a run

ENDINGS = 30
SEED = int(os.environ.get("OUTRIDER_CRASH_SEED", "1"))


async def test_a_control_at_the_very_end_of_a_run_is_taken_or_refused_and_never_stuck(
    outrider: Outrider, sandbox: HoldingSandbox, log_path: Path
) -> None:
    """Pause or stop within milliseconds of the last settlement, many times over."""
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    taken: Counter[str] = Counter()
    async with working(outrider):
        for number in range(ENDINGS):
            sandbox.change_faults({"latencyMs": dice.uniform(0, 20)})
            campaign_id = await created(outrider, 2, batch_size=1)
            before = sandbox.requests
            run_id = await begun(outrider, campaign_id)
            await called(sandbox, before + 2)
            # Not a wait for anything: this is the random moment.
            await asyncio.sleep(dice.uniform(0, 0.02))
            action = Action.PAUSE if number % 3 else Action.STOP
            try:
                answer = await control(outrider, campaign_id, action)
            except InvalidPhaseTransition as late:
                taken[f"too late, {late.state}"] += 1
                await until_ended(outrider, run_id)
                continue
            taken[action.value] += 1
            if action is Action.PAUSE:
                assert answer.state is PhaseState.PAUSED
                await until_run(outrider, run_id, lambda _, counted: counted.sent == 2)
                assert await phase_state(outrider, campaign_id) is PhaseState.PAUSED
                await control(outrider, campaign_id, Action.RESUME)
            else:
                await until_ended(outrider, run_id)
                await control(outrider, campaign_id, Action.RETRY)
            await until_state(outrider, campaign_id, PhaseState.COMPLETED)
            await until_ended(outrider, run_id)
    print(dict(taken))
    assert set(taken) <= {"pause", "stop", "too late, completed"}
    delivered = references_delivered(log_path)
    assert len(delivered) == 2 * ENDINGS
    assert set(delivered.values()) == {1}


STRESS_SECONDS = 4
PEOPLE = 200
"""In each launch: enough that some still wait when the controls end."""


@POSTGRES
async def test_controls_heartbeats_rescue_and_settlement_under_load_never_deadlock(
    database: str, tmp_path: Path, sandbox: HoldingSandbox, log_path: Path
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(SEED)
    limits = Limits(
        heartbeat_seconds=0.005, rescue_interval_seconds=0.005, idle_poll_seconds=0.005,
        jobs_in_parallel=16, progress_seconds=0.02,
    )  # fmt: skip
    targets = [target("sms.all", "sms", sandbox.http_url, maxAttempts=50)]
    sandbox.change_faults(
        {"latencyMs": 10, "failRate": 0.2, "throttleRate": 0.01, "retryAfterSeconds": 0}
    )
    async with (
        opened(database, tmp_path, *targets, limits=limits) as one,
        opened(database, tmp_path, *targets, limits=limits) as other,
    ):
        campaigns = [await created(one, PEOPLE, batch_size=3) for _ in range(3)]
        runs = [await begun(one, campaign_id) for campaign_id in campaigns]
        enough = asyncio.get_running_loop().time() + STRESS_SECONDS

        async def steer(campaign_id: CampaignId, outrider: Outrider) -> int:
            given = 0
            while asyncio.get_running_loop().time() < enough:
                try:
                    await control(outrider, campaign_id, dice.choice([Action.PAUSE, Action.RESUME]))
                except InvalidPhaseTransition:
                    break
                given += 1
                await asyncio.sleep(dice.uniform(0, 0.02))
            return given

        async with working(one), working(other):
            given = await asyncio.gather(
                *(steer(each, outrider) for each in campaigns for outrider in (one, other))
            )
            for campaign_id, run_id in zip(campaigns, runs, strict=True):
                if await phase_state(one, campaign_id) is PhaseState.PAUSED:
                    await control(one, campaign_id, Action.RESUME)
                await until_ended(one, run_id)
                await until_state(one, campaign_id, PhaseState.COMPLETED)
        async with raw_sql(database) as raw:
            failed = await raw.run("SELECT last_error FROM job_queue WHERE attempts > 0")
            deadlocks = await raw.value(
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
            )
    print(f"{sum(given)} controls, {deadlocks} deadlocks")
    assert failed == [], "a deadlock must not cost a job one of its attempts"
    assert deadlocks == 0
    delivered = references_delivered(log_path)
    assert len(delivered) == 3 * PEOPLE
    assert set(delivered.values()) == {1}


@POSTGRES
@pytest.mark.parametrize("role", ["rescue", "requeue", "wake", "verdict"])
async def test_a_statement_that_writes_many_jobs_cannot_deadlock_with_a_control(
    outrider: Outrider, sandbox: HoldingSandbox, database: str, role: str
) -> None:
    """A control locks a run's jobs in the order of their ids, whatever order they lie in."""
    if role == "verdict":
        _, run_id = await stopped_with_doubts(outrider, sandbox, batch_size=8)
    else:
        run_id = await begun(outrider, await created(outrider, 40))
    now = outrider.clock.now()
    earlier = {
        "rescue": "status = 'locked', locked_by = 'gone', heartbeat_at = now(),"
        " lease_expires_at = now() - make_interval(secs => {place})",
        "requeue": "status = 'failed', run_at = now() - make_interval(secs => {place})",
        "wake": "run_at = NULL",
        "verdict": "run_at = NULL",
    }[role]
    async with raw_sql(database) as raw:
        ids = [str(row[0]) for row in await raw.run("SELECT id FROM job_queue ORDER BY id")]
        # Written anew from the last to the first: so they lie in the file, and in every index.
        for place, job_id in enumerate(reversed(ids)):
            changes = earlier.format(place=len(ids) - place)
            await raw.run(f"UPDATE job_queue SET {changes} WHERE id = '{job_id}'")
    control_like = await asyncpg.connect(database)
    try:
        async with control_like.transaction():
            lock = "SELECT 1 FROM job_queue WHERE id = $1 FOR NO KEY UPDATE"
            await control_like.execute(lock, ids[0])
            if role == "rescue":
                meanwhile = outrider.store.write(
                    lost_jobs.rescue_expired(now, ONE, outrider.ids, now)
                )
                writing: asyncio.Task[object] = asyncio.create_task(meanwhile)
            elif role == "verdict":
                writing = asyncio.create_task(settle_doubts(outrider, run_id, DoubtVerdict.FAILED))
            else:
                writing = asyncio.create_task(outrider.store.write(jobs.requeue(now)))
            await asyncio.wait({writing}, timeout=0.4)
            for job_id in ids[1:]:
                await control_like.execute(lock, job_id)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await writing
    finally:
        await control_like.close()
