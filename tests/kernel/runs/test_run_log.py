"""The log of a run as whole runs write it, and every row rebuilt from the log alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, WorkerId
from outrider.domain.phases import Action
from outrider.domain.projection import SnapshotStatus, StepStatus
from outrider.domain.run_events import EMITTERS, RunEventType, event_key
from outrider.domain.states import Channel, PhaseState
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions import claims, jobs, run_records
from outrider.ports.store import Transaction
from outrider.testing.launches import ACTOR, message, observe, people, target
from outrider.testing.store_suite.workshop import ONE, OTHER, Workshop
from tests.support.controls import begun, control, created, until_ended, until_run, until_state
from tests.support.raw_sql import Refused, raw_sql
from tests.support.run_logs import check_against_log, events_of, projected, types_of
from tests.support.whole_runs import opened, work_until_terminal, working


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(database: str, tmp_path: Path, sandbox: Sandbox) -> AsyncIterator[Outrider]:
    gateway = target("sms.all", "sms", sandbox.http_url, terminalOutcomes=["invalid_recipient"])
    async with opened(database, tmp_path, gateway) as outrider:
        yield outrider


async def test_the_events_of_a_whole_run_are_in_order(outrider: Outrider) -> None:
    campaign_id = await created(outrider, 30)
    run_id = await begun(outrider, campaign_id)
    assert await types_of(outrider, run_id) == ["RunApproved"]
    await work_until_terminal(outrider, run_id)
    told = await events_of(outrider, run_id)
    types = [event.type for event in told]
    assert types[:2] == ["RunApproved", "RunStarted"]
    assert types[-1] == "RunCompleted"
    assert sorted(types[2:-1]) == ["StepCompleted"] * 3 + ["StepStarted"] * 3
    assert [event.run_seq for event in told] == list(range(1, len(told) + 1))
    for event in told:
        assert event.emitter == EMITTERS[RunEventType(event.type)]
        assert event.idempotency_key == event_key(
            run_id, event.step_id, event.logical_attempt, event.type, event.plan_version
        )
    for step_id in {event.step_id for event in told if event.step_id}:
        own = [event.type for event in told if event.step_id == step_id]
        assert own == ["StepStarted", "StepCompleted"]
    (snapshot,) = await check_against_log(outrider, campaign_id)
    assert snapshot.status is SnapshotStatus.COMPLETED
    assert snapshot.engine_run_ref == f"local/{run_id}"


async def test_rows_are_rebuilt_from_the_log_through_pause_stop_retry_and_failure(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    sandbox.change_faults({"latencyMs": 40})
    # Far more than are sent while a busy machine gets to the next line.
    campaign_id = await created(outrider, 200)
    run_id = await begun(outrider, campaign_id)
    await check_against_log(outrider, campaign_id)
    async with working(outrider):
        await until_run(outrider, run_id, lambda _, counted: counted.sent >= 10)
        await control(outrider, campaign_id, Action.PAUSE)
        await check_against_log(outrider, campaign_id)
        await control(outrider, campaign_id, Action.RESUME)
        await control(outrider, campaign_id, Action.PAUSE)
        await control(outrider, campaign_id, Action.STOP)
        await until_ended(outrider, run_id)
        (stopped,) = await check_against_log(outrider, campaign_id)
        assert stopped.status is SnapshotStatus.CANCELLED
        sandbox.change_faults({"latencyMs": 0, "failRate": 1.0})
        retried = (await control(outrider, campaign_id, Action.RETRY)).run_id
        assert retried is not None
        await until_ended(outrider, retried)
        await check_against_log(outrider, campaign_id)
        sandbox.change_faults({"failRate": 0.0})
    types = await types_of(outrider, run_id)
    assert types.count("RunPaused") == 2
    assert types.count("RunResumed") == 2
    assert types.count("SignalAccepted") == 4
    assert types[-1] == "RunCancelled"


async def test_a_run_of_a_phase_without_work_starts_and_completes_in_its_log(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider, 0, order=("http_validation", LAUNCH))
    run_id = await begun(outrider, campaign_id, "http_validation")
    assert await types_of(outrider, run_id) == ["RunApproved", "RunStarted", "RunCompleted"]
    await check_against_log(outrider, campaign_id)


async def test_a_stop_before_any_job_was_taken_cancels_a_run_that_never_started(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider, 20)
    run_id = await begun(outrider, campaign_id)
    await control(outrider, campaign_id, Action.STOP)
    async with working(outrider):
        await until_ended(outrider, run_id)
    types = await types_of(outrider, run_id)
    assert types == [
        "RunApproved", "SignalAccepted", "StepSkipped", "StepSkipped", "RunCancelled",
    ]  # fmt: skip
    snapshot = (await check_against_log(outrider, campaign_id))[0]
    assert {step.status for step in snapshot.steps.values()} == {StepStatus.SKIPPED}


async def test_a_queued_run_that_is_paused_and_resumed_is_still_queued(outrider: Outrider) -> None:
    campaign_id = await created(outrider, 20)
    run_id = await begun(outrider, campaign_id)
    await control(outrider, campaign_id, Action.PAUSE)
    await check_against_log(outrider, campaign_id)
    await control(outrider, campaign_id, Action.RESUME)
    await check_against_log(outrider, campaign_id)
    run, _ = await observe(outrider, run_id)
    assert run.status == "queued"
    await work_until_terminal(outrider, run_id)
    await check_against_log(outrider, campaign_id)


async def test_a_lost_lease_is_a_new_engine_attempt_and_no_new_event(outrider: Outrider) -> None:
    """Same logical attempt, same key: the second worker's StepStarted is the first one's."""
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    shop = Workshop(outrider.store)
    now = outrider.clock.now()
    (job,) = await shop.claim(ONE, now=now, lease_seconds=0)
    await outrider.step_recorder(ONE).started([job])
    assert await shop.rescue(outrider.clock.now()) == 1
    (again,) = await shop.claim(OTHER, now=outrider.clock.now())
    assert (again.attempts, again.logical_attempt) == (1, 1)
    await outrider.step_recorder(OTHER).started([again])
    started = [event for event in await events_of(outrider, run_id) if event.step_id]
    assert [(event.type, event.engine_attempt) for event in started] == [("StepStarted", 1)]
    await outrider.store.write(jobs.release(again, outrider.clock.now(), outrider.clock.now()))
    await work_until_terminal(outrider, run_id)
    (snapshot,) = await check_against_log(outrider, campaign_id)
    (step,) = snapshot.steps.values()
    assert (step.logical_attempt, step.engine_attempt) == (1, 2)
    seqs = [event.run_seq for event in await events_of(outrider, run_id)]
    assert seqs == list(range(1, len(seqs) + 1)), "what was told before takes no number"


async def test_an_artifact_goes_to_the_log_as_a_reference(outrider: Outrider) -> None:
    offer = message(Channel.SMS, "sms.all")
    definition = CampaignDefinition("test", (LAUNCH, "report"), (offer,), 10)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(5), ACTOR)
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await until_ended(outrider, run_id)
        await until_state(outrider, campaign_id, PhaseState.COMPLETED)
        report = await begun(outrider, campaign_id, "report")
        await until_ended(outrider, report)
    snapshot = (await check_against_log(outrider, campaign_id))[-1]
    assert {each["kind"] for each in snapshot.artifacts} >= {"results.csv", "certificate.json"}
    for artifact in snapshot.artifacts:
        assert artifact["uri"].startswith("file:")
        assert len(artifact["sha256"]) == 64
        assert artifact["sizeBytes"] > 0


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE run_events SET type = 'RunCompleted'",
        "DELETE FROM run_events",
        "UPDATE campaign_runs SET status = 'running'",
        "UPDATE campaign_runs SET status = 'completed', finished_at = created_at",
    ],
)
async def test_the_database_keeps_the_log_and_the_row_to_it(
    outrider: Outrider, database: str, sql: str
) -> None:
    await begun(outrider, await created(outrider, 5))
    async with raw_sql(database) as raw:
        with pytest.raises(Refused):
            await raw.run(sql)


async def test_the_database_refuses_a_second_event_of_a_sequence_or_a_key(
    outrider: Outrider, database: str
) -> None:
    run_id = await begun(outrider, await created(outrider, 5))
    copy = (
        "INSERT INTO run_events (run_id, run_seq, type, emitter, logical_attempt, plan_version,"
        " idempotency_key, payload, occurred_at) SELECT run_id, {}, 'Else', 'hand', 1,"
        " plan_version, {}, payload, occurred_at FROM run_events"
    )
    async with raw_sql(database) as raw:
        with pytest.raises(Refused):
            await raw.run(copy.format("run_seq", raw.blob(bytes(32))))
        with pytest.raises(Refused):
            await raw.run(copy.format("run_seq + 1", "idempotency_key"))
        await raw.run(copy.format("run_seq + 1", raw.blob(bytes(32))))
    assert await types_of(outrider, run_id) == ["RunApproved", "Else"]


async def test_concurrent_appenders_of_one_run_never_share_a_sequence(outrider: Outrider) -> None:
    campaign_id = await created(outrider, 200)
    run_id = await begun(outrider, campaign_id)
    shop = Workshop(outrider.store)
    claimed = await shop.claim(ONE, most=20, now=outrider.clock.now())
    await asyncio.gather(
        *(outrider.step_recorder(WorkerId(f"worker-{job.id}")).started([job]) for job in claimed)
    )
    told = await events_of(outrider, run_id)
    assert [event.run_seq for event in told] == list(range(1, 23))
    assert len({event.step_id for event in told if event.step_id}) == 20


async def test_nothing_of_a_refused_transaction_is_in_the_log(outrider: Outrider) -> None:
    """The row and its event are one transaction: what is rolled back took its event along."""
    campaign_id = await created(outrider, 20)
    run_id = await begun(outrider, campaign_id)
    before = await events_of(outrider, run_id)

    def aborted() -> Transaction[None]:
        version, now = before[0].plan_version, outrider.clock.now()
        yield from claims.start_run(run_id, version, "nobody", "nowhere", now)
        raise RuntimeError("killed here")

    with pytest.raises(RuntimeError, match="killed here"):
        await outrider.store.write(aborted())
    assert await events_of(outrider, run_id) == before
    run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))
    assert run.status == "queued"
    assert (await projected(outrider, run_id)).status is SnapshotStatus.APPROVED
    await check_against_log(outrider, campaign_id)
