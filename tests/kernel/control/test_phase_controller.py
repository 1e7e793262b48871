"""Controls of phases in one process, against a provider that takes its time, on both stores."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.errors import (
    Conflict,
    ExpectedStateMismatch,
    InvalidPhaseTransition,
    NotFound,
    PreconditionFailed,
)
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import Channel, PhaseState
from outrider.gateways.sandbox import Faults, references_delivered
from outrider.kernel.transactions import artifacts, doubts
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.phase_controls import Control, ControlAnswer, RerunScope
from outrider.kernel.transactions.phase_repairs import count_bypasses
from outrider.kernel.work.progress_reporter import ProgressReporter
from outrider.limits.kernel import Limits
from outrider.testing.launches import ACTOR, WATCH_SECONDS, message, observe, people, target
from tests.support.broken_server import HoldingSandbox
from tests.support.controls import events_of, lifecycle, until_nothing_is_held
from tests.support.eventually import eventually, observed_for
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import items_of, opened, working

PATIENCE_SECONDS = 60


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
        target("sms.once", "sms", sandbox.http_url, policy="one_shot"),
        target("smtp.all", "smtp", sandbox.smtp_url, maxAttempts=50),
    ]
    async with opened(database, tmp_path, *targets) as outrider:
        yield outrider


async def created(
    outrider: Outrider,
    count: int = 60,
    *,
    phases: tuple[str, ...] = (LAUNCH,),
    target_name: str = "sms.all",
    batch_size: int = 10,
) -> CampaignId:
    sms = message(Channel.SMS, target_name)
    definition = CampaignDefinition("test", phases, (sms,), batch_size)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(count), ACTOR)
    return campaign_id


async def control(
    outrider: Outrider,
    campaign_id: CampaignId,
    action: Action,
    phase: str = LAUNCH,
    *,
    expected: PhaseState | None = None,
    scope: RerunScope | None = None,
    confirm: bool = False,
) -> ControlAnswer:
    return await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, phase, Control(action, ACTOR, expected, scope, confirm)
    )


async def phase_state(outrider: Outrider, campaign_id: CampaignId, phase: str = LAUNCH) -> str:
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    return next(each.state.value for each in snapshot.phases if each.phase == phase)


async def until_state(
    outrider: Outrider, campaign_id: CampaignId, state: str, phase: str = LAUNCH
) -> None:
    async def is_so() -> bool:
        return await phase_state(outrider, campaign_id, phase) == state

    await eventually(is_so, seconds=PATIENCE_SECONDS)


async def until_accounting(
    outrider: Outrider, run_id: RunId | None, reached: Callable[[Accounting], bool]
) -> Accounting:
    assert run_id is not None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            _, accounting = await observe(outrider, run_id)
            assert accounting.holds, accounting
            if reached(accounting):
                return accounting
            await asyncio.sleep(WATCH_SECONDS)


async def settled(outrider: Outrider, sandbox: HoldingSandbox) -> int:
    """How many requests the provider has had when nobody is at work any more."""
    await until_nothing_is_held(outrider)
    before = sandbox.requests
    await observed_for(0.3)
    assert sandbox.requests == before
    return before


async def test_a_paused_launch_makes_no_calls_and_a_resumed_one_continues_where_it_was(
    outrider: Outrider, sandbox: HoldingSandbox, log_path: Path
) -> None:
    sandbox.faults.latency_ms = 20
    campaign_id = await created(outrider, 1500, batch_size=50)
    started = await control(outrider, campaign_id, Action.START)
    async with working(outrider):
        await until_accounting(outrider, started.run_id, lambda a: a.sent >= 100)
        paused = await control(outrider, campaign_id, Action.PAUSE)
        assert (paused.state, paused.changed) == (PhaseState.PAUSED, True)
        at_rest = await settled(outrider, sandbox)
        assert at_rest < 1500
        before = await until_accounting(outrider, started.run_id, lambda a: a.sent == at_rest)
        assert await phase_state(outrider, campaign_id) == "paused"
        resumed = await control(outrider, campaign_id, Action.RESUME)
        assert resumed.run_id == started.run_id
        sandbox.faults.latency_ms = 0
        await until_state(outrider, campaign_id, "completed")
    _, after = await observe(outrider, RunId(str(started.run_id)))
    assert (after.sent, before.sent) == (1500, at_rest)
    assert await lifecycle(outrider, campaign_id) == [
        "phase_started", "phase_paused", "phase_resumed", "phase_completed",
    ]  # fmt: skip
    delivered = references_delivered(log_path)
    assert len(delivered) == 1500
    assert set(delivered.values()) == {1}


async def test_a_paused_phase_stays_paused_when_its_last_call_ends_and_completes_on_resume(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    sandbox.answers.clear()
    campaign_id = await created(outrider, 5)
    started = await control(outrider, campaign_id, Action.START)
    async with working(outrider):
        await eventually(lambda: sandbox.requests == 5, seconds=PATIENCE_SECONDS)
        await control(outrider, campaign_id, Action.PAUSE)
        sandbox.answers.set()
        await until_accounting(outrider, started.run_id, lambda a: a.sent == 5)
        await observed_for(0.2)
        assert await phase_state(outrider, campaign_id) == "paused"
        await control(outrider, campaign_id, Action.RESUME)
        await until_state(outrider, campaign_id, "completed")
    assert sandbox.requests == 5


async def test_asking_again_for_what_is_so_changes_nothing(outrider: Outrider) -> None:
    campaign_id = await created(outrider)
    first = await control(outrider, campaign_id, Action.START)
    again = await control(outrider, campaign_id, Action.START)
    assert (again.changed, again.sequence, again.run_id) == (False, first.sequence, first.run_id)
    pause = await control(outrider, campaign_id, Action.PAUSE)
    pauses = await asyncio.gather(*(control(outrider, campaign_id, Action.PAUSE) for _ in range(5)))
    assert {(each.changed, each.sequence) for each in pauses} == {(False, pause.sequence)}
    assert await lifecycle(outrider, campaign_id) == ["phase_started", "phase_paused"]


async def test_ten_pauses_at_once_are_one_pause(outrider: Outrider) -> None:
    campaign_id = await created(outrider)
    await control(outrider, campaign_id, Action.START)
    answers = await asyncio.gather(
        *(control(outrider, campaign_id, Action.PAUSE) for _ in range(10))
    )
    assert sum(answer.changed for answer in answers) == 1
    assert len({answer.sequence for answer in answers}) == 1


async def test_a_state_that_is_not_the_expected_one_is_refused_first(outrider: Outrider) -> None:
    campaign_id = await created(outrider)
    await control(outrider, campaign_id, Action.START)
    await control(outrider, campaign_id, Action.PAUSE)
    with pytest.raises(ExpectedStateMismatch) as refused:
        await control(outrider, campaign_id, Action.PAUSE, expected=PhaseState.IN_PROGRESS)
    assert refused.value.details == {
        "current_state": "paused", "expected_state": "in_progress", "attempted_action": "pause",
    }  # fmt: skip


async def test_nothing_but_its_run_completes_a_phase(outrider: Outrider) -> None:
    campaign_id = await created(outrider)
    await control(outrider, campaign_id, Action.START)
    with pytest.raises(PreconditionFailed, match="has not ended"):
        await control(outrider, campaign_id, Action.COMPLETE)
    await control(outrider, campaign_id, Action.PAUSE)
    with pytest.raises(InvalidPhaseTransition, match="from 'paused' to 'completed'"):
        await control(outrider, campaign_id, Action.COMPLETE)


async def test_an_unknown_phase_or_campaign_is_not_found(outrider: Outrider) -> None:
    campaign_id = await created(outrider)
    with pytest.raises(NotFound, match="report"):
        await control(outrider, campaign_id, Action.START, "report")
    with pytest.raises(NotFound):
        await control(outrider, CampaignId("nonsense"), Action.START)


# Stop


async def test_a_stopped_launch_skips_what_was_never_attempted_and_accounts_for_all(
    outrider: Outrider, sandbox: HoldingSandbox, log_path: Path
) -> None:
    sandbox.faults.latency_ms = 20
    campaign_id = await created(outrider, 1500, batch_size=50)
    started = await control(outrider, campaign_id, Action.START)
    async with working(outrider):
        await until_accounting(outrider, started.run_id, lambda a: a.sent >= 100)
        stopped = await control(outrider, campaign_id, Action.STOP)
        assert stopped.state is PhaseState.FAILED
        accounting = await until_accounting(outrider, started.run_id, lambda a: not a.waiting)
    run, accounting = await observe(outrider, RunId(str(started.run_id)))
    assert run.status == "partial"
    assert accounting.sent + accounting.skipped == 1500
    assert accounting.skipped > 0
    items = await items_of(outrider, run.id)
    assert {item.reason for item in items.values() if item.status == "skipped"} == {"cancelled"}
    assert len(references_delivered(log_path)) == accounting.sent
    events = await events_of(outrider, campaign_id)
    assert [event.type for event in events if event.type == "phase_failed"] == ["phase_failed"]
    assert '"reason":"stopped"' in events[-1].payload
    assert (await outrider.certifier.certify(DEFAULT_SCOPE, run.id)).holds


async def test_stopping_before_anything_was_sent_fails_the_run(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id = await created(outrider, 30)
    started = await control(outrider, campaign_id, Action.START)
    await control(outrider, campaign_id, Action.STOP)
    again = await control(outrider, campaign_id, Action.STOP)
    assert again.changed is False
    async with working(outrider):
        await until_accounting(outrider, started.run_id, lambda a: a.skipped == 30)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                run, _ = await observe(outrider, RunId(str(started.run_id)))
                if run.status == "failed":
                    break
                await asyncio.sleep(WATCH_SECONDS)
    assert sandbox.requests == 0
    assert await phase_state(outrider, campaign_id) == "failed"


async def test_stopping_a_paused_phase_is_a_resume_and_a_failure_both_recorded(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider)
    await control(outrider, campaign_id, Action.START)
    await control(outrider, campaign_id, Action.PAUSE)
    answer = await outrider.phase_controller.stop_campaign(
        DEFAULT_SCOPE, campaign_id, Control(Action.STOP, ACTOR)
    )
    assert (answer.phase, answer.state) == (LAUNCH, PhaseState.FAILED)
    assert await lifecycle(outrider, campaign_id) == [
        "phase_started", "phase_paused", "phase_resumed", "phase_failed",
    ]  # fmt: skip


async def test_there_is_nothing_to_stop_in_a_campaign_that_never_started(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider)
    with pytest.raises(InvalidPhaseTransition):
        await outrider.phase_controller.stop_campaign(
            DEFAULT_SCOPE, campaign_id, Control(Action.STOP, ACTOR)
        )


# Retry and rerun


async def test_a_retry_covers_what_a_stop_left_and_nothing_else(
    outrider: Outrider, sandbox: HoldingSandbox, log_path: Path
) -> None:
    sandbox.faults.latency_ms = 20
    campaign_id = await created(outrider, 1000, batch_size=50)
    started = await control(outrider, campaign_id, Action.START)
    async with working(outrider):
        await until_accounting(outrider, started.run_id, lambda a: a.sent >= 100)
        await control(outrider, campaign_id, Action.STOP)
        first = await until_accounting(outrider, started.run_id, lambda a: not a.waiting)
        sandbox.faults.latency_ms = 0
        retried = await control(outrider, campaign_id, Action.RETRY)
        await until_state(outrider, campaign_id, "completed")
    run, second = await observe(outrider, RunId(str(retried.run_id)))
    assert run.retry_of == started.run_id
    assert (second.intended, second.sent) == (first.skipped, first.skipped)
    delivered = references_delivered(log_path)
    assert len(delivered) == 1000
    assert set(delivered.values()) == {1}
    assert (await outrider.certifier.certify(DEFAULT_SCOPE, run.id)).holds


async def test_a_retry_leaves_out_what_is_in_doubt_whatever_the_verdict_is_later(
    outrider: Outrider, sandbox: HoldingSandbox, database: str
) -> None:
    campaign_id = await created(outrider, 20, target_name="sms.once")
    sandbox.faults.fail_rate = 1.0
    started = await control(outrider, campaign_id, Action.START)
    async with working(outrider):
        await until_state(outrider, campaign_id, "failed")
        # A hand in the database: one of the failures never had its answer.
        async with raw_sql(database) as raw:
            await raw.run(
                "DROP TRIGGER channel_outbox_terminal_is_final"
                + ("" if database.startswith("sqlite") else " ON channel_outbox")
            )
            await raw.run(
                "UPDATE channel_outbox SET status = 'queued', attempt_closed_at = NULL,"
                " intent_status = 'PENDING', doubted_at = created_at"
                " WHERE recipient_id = 'lead-3'"
            )
        sandbox.faults.fail_rate = 0.0
        retried = await control(outrider, campaign_id, Action.RETRY)
        (doubt,) = await outrider.store.read(doubts.doubts_page(DEFAULT_SCOPE, None, FIRST, 10))
        await outrider.doubt_resolver.resolve(
            DEFAULT_SCOPE, doubt.id, DoubtVerdict.FAILED, "seen", ACTOR
        )
        await until_state(outrider, campaign_id, "completed")
    _, accounting = await observe(outrider, RunId(str(retried.run_id)))
    assert (accounting.intended, accounting.sent) == (19, 19)
    assert "lead-3" not in await items_of(outrider, RunId(str(retried.run_id)))
    assert started.run_id != retried.run_id


async def test_a_partial_run_completes_its_phase_and_its_rerun_is_the_remainder(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    sandbox.faults.fail_rate = 0.5
    campaign_id = await created(outrider, 60, target_name="sms.once")
    started = await control(outrider, campaign_id, Action.START)
    async with working(outrider):
        await until_state(outrider, campaign_id, "completed")
        run, first = await observe(outrider, RunId(str(started.run_id)))
        assert run.status == "partial"
        dry = await outrider.previewer.dry_run(DEFAULT_SCOPE, campaign_id)
        assert (dry["scope"], dry["wouldSend"]) == ("remainder", first.failed)
        assert dry["alreadySent"] == first.sent
        sandbox.faults.fail_rate = 0.0
        rerun = await control(outrider, campaign_id, Action.RERUN)
        await until_state(outrider, campaign_id, "completed")
    _, second = await observe(outrider, RunId(str(rerun.run_id)))
    assert (second.intended, second.sent) == (first.failed, first.failed)


async def test_a_rerun_for_everyone_must_be_confirmed(outrider: Outrider, log_path: Path) -> None:
    campaign_id = await created(outrider, 20)
    await control(outrider, campaign_id, Action.START)
    async with working(outrider):
        await until_state(outrider, campaign_id, "completed")
        with pytest.raises(PreconditionFailed) as refused:
            await control(outrider, campaign_id, Action.RERUN)
        assert refused.value.code == "RERUN_PRECONDITION_FAILED"
        assert refused.value.details["reason"] == "confirmation_required"
        with pytest.raises(PreconditionFailed, match="left nobody to send to"):
            await control(outrider, campaign_id, Action.RERUN, scope=RerunScope.REMAINDER)
        await control(outrider, campaign_id, Action.RERUN, scope=RerunScope.ALL, confirm=True)
        await until_state(outrider, campaign_id, "completed")
    assert len(references_delivered(log_path)) == 40


async def test_phases_start_one_at_a_time_and_in_order(outrider: Outrider) -> None:
    campaign_id = await created(outrider, phases=("http_validation", LAUNCH, "report"))
    with pytest.raises(PreconditionFailed) as early:
        await control(outrider, campaign_id, Action.START)
    assert early.value.code == "PHASE_PRECONDITION_FAILED"
    assert early.value.details["blocking_phase"] == "http_validation"
    # There is no link to check: the phase begins and completes at once.
    checked = await control(outrider, campaign_id, Action.START, "http_validation")
    assert checked.state is PhaseState.COMPLETED
    await control(outrider, campaign_id, Action.START)
    with pytest.raises(PreconditionFailed) as busy:
        await control(outrider, campaign_id, Action.RERUN, "http_validation")
    assert busy.value.code == "RERUN_PRECONDITION_FAILED"
    assert busy.value.details["reason"] == "another_phase_in_progress"
    assert busy.value.details["blocking_phase"] == LAUNCH


async def test_a_campaign_runs_through_all_its_phases_to_its_report(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    order = ("audience_import", LAUNCH, "report")
    campaign_id = await created(outrider, 1200, phases=order)
    async with working(outrider):
        for phase in order:
            await control(outrider, campaign_id, Action.START, phase)
            await until_state(outrider, campaign_id, "completed", phase)
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    assert snapshot.control_phase is None
    assert [phase.progress_percentage for phase in snapshot.phases] == [100.0, 100.0, 100.0]
    assert snapshot.audience_size == 1200
    assert sandbox.requests == 1200
    kept = await outrider.store.read(artifacts.page(campaign_id, FIRST, 10))
    assert {each.name for each in kept} == {"results.csv", "certificate.json", "report.html"}
    for each in kept:
        pieces = [piece async for piece in outrider.artifacts.read(each.reference)]
        assert sum(map(len, pieces)) == each.size_bytes > 0


async def test_an_audience_is_closed_once_its_import_has_started(
    outrider: Outrider, tmp_path: Path
) -> None:
    campaign_id = await created(outrider, 10, phases=("audience_import", LAUNCH))
    more = tmp_path / "more.csv"
    more.write_text("id,phone\nlead-3,+447700900000\nnew-1,+447700900001\n")
    added = await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, more, ACTOR)
    assert (added.recipients, added.staged) == (2, True)
    async with working(outrider):
        await control(outrider, campaign_id, Action.START, "audience_import")
        await until_state(outrider, campaign_id, "completed", "audience_import")
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    assert snapshot.audience_size == 11
    with pytest.raises(Conflict, match="closed"):
        await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, more, ACTOR)


async def test_recipients_without_an_import_phase_are_added_at_once(
    outrider: Outrider, tmp_path: Path
) -> None:
    campaign_id = await created(outrider, 10)
    more = tmp_path / "more.ndjson"
    more.write_text('{"id": "lead-3"}\n{"id": "new-1", "phone": "+44 7700 000001"}\n')
    added = await outrider.audience_intake.add(DEFAULT_SCOPE, campaign_id, more, ACTOR)
    assert (added.recipients, added.staged) == (1, False)
    dry = await outrider.previewer.dry_run(DEFAULT_SCOPE, campaign_id)
    assert (dry["wouldSend"], dry["skipped"]) == (10, {"duplicate_address": 1})
    seen = await outrider.previewer.preview(DEFAULT_SCOPE, campaign_id, "lead-4")
    assert seen["body"] == "Hi Person 4"


# Progress and bypass


async def test_progress_is_reported_only_for_a_phase_in_progress_and_never_changes_its_state(
    outrider: Outrider,
) -> None:
    reporter = ProgressReporter(
        replace(outrider.foundation, limits=Limits(progress_seconds=0)), outrider.hub
    )
    campaign_id = await created(outrider, 30)
    assert await reporter.report_once() == 0
    await control(outrider, campaign_id, Action.START)
    assert await reporter.report_once() == 1
    assert await reporter.report_once() == 0
    await control(outrider, campaign_id, Action.PAUSE)
    assert await reporter.report_once() == 0
    assert await phase_state(outrider, campaign_id) == "paused"
    events = [event.type for event in await events_of(outrider, campaign_id)]
    assert events == ["phase_started", "campaign_progress", "phase_paused"]


async def test_a_state_that_changes_without_its_event_is_recorded_as_a_bypass(
    outrider: Outrider, database: str
) -> None:
    campaign_id = await created(outrider)
    await control(outrider, campaign_id, Action.START)
    await control(outrider, campaign_id, Action.PAUSE)
    await control(outrider, campaign_id, Action.RESUME)
    assert await outrider.store.read(count_bypasses()) == 0
    async with raw_sql(database) as raw:
        await raw.run(
            f"UPDATE campaign_phases SET state = 'failed' WHERE campaign_id = '{campaign_id}'"
        )
        rows = await raw.run(
            "SELECT detail FROM campaign_audit_log WHERE event = 'phase.transition_bypassed'"
        )
    assert await outrider.store.read(count_bypasses()) == 1
    assert '"from_status"' in rows[0][0].replace(" ", "")
    assert '"in_progress"' in rows[0][0]


async def test_a_phase_whose_run_has_ended_is_repaired_on_start_and_that_is_recorded(
    outrider: Outrider, database: str
) -> None:
    campaign_id = await created(outrider, 5)
    await control(outrider, campaign_id, Action.START)
    await control(outrider, campaign_id, Action.PAUSE)
    async with raw_sql(database) as raw:
        await raw.complete_runs(campaign_id)
    assert await outrider.phase_restorer.restore() == 1
    assert await outrider.phase_restorer.restore() == 0
    assert await phase_state(outrider, campaign_id) == "completed"
    assert await outrider.store.read(count_bypasses()) == 1
    events = await events_of(outrider, campaign_id)
    assert (events[-1].type, '"repaired":true' in events[-1].payload) == ("phase_completed", True)
