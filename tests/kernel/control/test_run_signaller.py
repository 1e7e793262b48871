"""Signals to runs: authorised, recorded whatever was decided, and carried out once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    InvalidPhaseTransition,
    NotFound,
    PreconditionFailed,
    SignalRefused,
    StoreUnavailable,
)
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.keys import KeyId, KeyScope, Principal
from outrider.domain.phases import Action
from outrider.domain.projection import SnapshotStatus
from outrider.domain.retry import RetrySchedule
from outrider.domain.signals import Signal
from outrider.domain.states import Channel, PhaseState
from outrider.kernel.transactions import jobs, lost_jobs, paging, run_jobs
from outrider.ports.store import Result, Transaction
from outrider.testing.launches import ACTOR, message, observe, people, target
from outrider.testing.slow_store import script_name
from outrider.testing.store_suite.workshop import ELSEWHERE, ONE, Workshop
from tests.support.broken_server import HoldingSandbox
from tests.support.controls import (
    begun,
    control,
    created,
    phase_state,
    until,
    until_ended,
    until_run,
)
from tests.support.eventually import observed_for
from tests.support.raw_sql import raw_sql
from tests.support.run_logs import (
    ADMIN,
    OPERATOR,
    READER,
    check_against_log,
    events_of,
    projected,
    signal,
    types_of,
)
from tests.support.whole_runs import opened, work_until_terminal, working

FAR = timedelta(hours=1)


@pytest.fixture
async def sandbox() -> AsyncIterator[HoldingSandbox]:
    async with HoldingSandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(
    database: str, tmp_path: Path, sandbox: HoldingSandbox
) -> AsyncIterator[Outrider]:
    gateway = target("sms.all", "sms", sandbox.http_url)
    async with opened(database, tmp_path, gateway) as outrider:
        yield outrider


async def awaiting_approval(outrider: Outrider, count: int = 20) -> tuple[CampaignId, RunId]:
    offer = message(Channel.SMS, "sms.all")
    definition = CampaignDefinition("test", (LAUNCH,), (offer,), 10, require_approval=True)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(count), ACTOR)
    return campaign_id, await begun(outrider, campaign_id)


async def test_a_run_that_requires_approval_is_pending_until_it_is_approved(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id, run_id = await awaiting_approval(outrider)
    assert await types_of(outrider, run_id) == []
    assert (await projected(outrider, run_id)).status is SnapshotStatus.PENDING
    async with working(outrider):
        await observed_for(0.3)
        assert sandbox.requests == 0
        assert (await signal(outrider, run_id, Signal.APPROVE)).changed
        await until_ended(outrider, run_id)
    told = await events_of(outrider, run_id)
    assert [event.type for event in told][:3] == ["SignalAccepted", "RunApproved", "RunStarted"]
    assert told[0].payload["by"] == "key:ada"
    assert told[1].payload["approvedBy"] == "key:ada"
    assert sandbox.requests == 20
    await check_against_log(outrider, campaign_id)


async def test_approving_takes_an_admin_and_a_refusal_is_on_record(outrider: Outrider) -> None:
    _, run_id = await awaiting_approval(outrider)
    with pytest.raises(Forbidden, match="admin"):
        await signal(outrider, run_id, Signal.APPROVE, by=OPERATOR)
    (event,) = await events_of(outrider, run_id)
    assert (event.type, event.emitter) == ("SignalRejected", "authorisation")
    assert event.payload["by"] == "key:olga"
    assert "admin" in str(event.payload["reason"])
    assert (await projected(outrider, run_id)).status is SnapshotStatus.PENDING


async def test_a_reader_may_steer_nothing(outrider: Outrider) -> None:
    run_id = await begun(outrider, await created(outrider, 5))
    for sent in Signal:
        step_id = outrider.ids.new() if sent is Signal.RETRY_STEP else None
        with pytest.raises(Forbidden):
            await signal(outrider, run_id, sent, by=READER, step_id=step_id)
    types = await types_of(outrider, run_id)
    assert types == ["RunApproved", *["SignalRejected"] * len(Signal)]


async def test_a_run_of_another_owner_does_not_exist(outrider: Outrider) -> None:
    run_id = await begun(outrider, await created(outrider, 5))
    stranger = Principal(ELSEWHERE, KeyId(""), "eve", frozenset({KeyScope.ADMIN}))
    with pytest.raises(NotFound):
        await signal(outrider, run_id, Signal.CANCEL, by=stranger)
    assert await types_of(outrider, run_id) == ["RunApproved"]


async def test_signals_pause_resume_and_cancel_a_run(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    sandbox.change_faults({"latencyMs": 500})
    campaign_id = await created(outrider, 2_000, batch_size=100)
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await until_run(outrider, run_id, lambda _, counted: counted.sent >= 5)
        await signal(outrider, run_id, Signal.PAUSE)
        assert await phase_state(outrider, campaign_id) == "paused"
        assert (await projected(outrider, run_id)).status is SnapshotStatus.PAUSED
        # So slow from now on that the rest of it takes seconds: the end comes by the signal.
        sandbox.change_faults({"latencyMs": 1_000})
        await signal(outrider, run_id, Signal.RESUME)
        assert (await projected(outrider, run_id)).status is SnapshotStatus.RUNNING
        await signal(outrider, run_id, Signal.CANCEL)
        await until_ended(outrider, run_id)
    told = await events_of(outrider, run_id)
    steering = [event.type for event in told if not event.type.startswith("Step")]
    assert steering == [
        "RunApproved", "RunStarted", "SignalAccepted", "RunPaused", "SignalAccepted", "RunResumed",
        "SignalAccepted", "RunCancelled",
    ]  # fmt: skip
    await check_against_log(outrider, campaign_id)


async def test_an_accepted_signal_alone_changes_no_status(outrider: Outrider) -> None:
    """The status comes with the engine's own event, never with the decision."""
    run_id = await begun(outrider, await created(outrider, 20))
    await signal(outrider, run_id, Signal.PAUSE)
    again = await signal(outrider, run_id, Signal.PAUSE)
    assert not again.changed
    types = await types_of(outrider, run_id)
    assert types == ["RunApproved", "SignalAccepted", "RunPaused", "SignalAccepted"]
    assert (await projected(outrider, run_id)).status is SnapshotStatus.PAUSED


async def test_a_signal_sent_twice_under_its_id_is_one_signal(outrider: Outrider) -> None:
    run_id = await begun(outrider, await created(outrider, 20))
    first = await signal(outrider, run_id, Signal.PAUSE, signal_id="pause-1")
    await signal(outrider, run_id, Signal.RESUME, signal_id="resume-1")
    again = await signal(outrider, run_id, Signal.PAUSE, signal_id="pause-1")
    assert again == first
    assert (await projected(outrider, run_id)).status is SnapshotStatus.RUNNING
    with pytest.raises(Conflict, match="pause-1"):
        await signal(outrider, run_id, Signal.CANCEL, signal_id="pause-1")
    step_id = outrider.ids.new()
    with pytest.raises(Conflict, match="pause-1"):
        await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id, signal_id="pause-1")
    together = await asyncio.gather(
        *(signal(outrider, run_id, Signal.CANCEL, signal_id="stop-1") for _ in range(5))
    )
    assert len({answer.run_seq for answer in together}) == 1
    types = await types_of(outrider, run_id)
    assert types.count("SignalAccepted") == 3


async def test_a_signal_that_the_runs_state_does_not_allow_is_rejected_and_recorded(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider, 5)
    run_id = await begun(outrider, campaign_id)
    await work_until_terminal(outrider, run_id)
    with pytest.raises(InvalidPhaseTransition):
        await signal(outrider, run_id, Signal.PAUSE)
    with pytest.raises(SignalRefused, match="ended"):
        await signal(outrider, run_id, Signal.APPROVE)
    again = await control(outrider, campaign_id, Action.RERUN, confirm=True)
    with pytest.raises(PreconditionFailed, match="not the current run"):
        await signal(outrider, run_id, Signal.CANCEL)
    assert (await types_of(outrider, run_id))[-3:] == ["SignalRejected"] * 3
    assert again.run_id is not None
    assert await types_of(outrider, again.run_id) == ["RunApproved"]
    await check_against_log(outrider, campaign_id)


async def test_a_refusal_is_repeated_unchanged_and_a_denial_does_not_use_up_the_id(
    outrider: Outrider,
) -> None:
    run_id = await begun(outrider, await created(outrider, 5))
    for _ in range(2):
        with pytest.raises(Forbidden):
            await signal(outrider, run_id, Signal.PAUSE, by=READER, signal_id="p-1")
    assert (await signal(outrider, run_id, Signal.PAUSE, signal_id="p-1")).changed
    unknown = outrider.ids.new()
    for _ in range(2):
        with pytest.raises(NotFound, match="no step"):
            await signal(outrider, run_id, Signal.RETRY_STEP, step_id=unknown, signal_id="r-1")
    await signal(outrider, run_id, Signal.CANCEL)
    async with working(outrider):
        await until_ended(outrider, run_id)
    for _ in range(2):
        with pytest.raises(Conflict) as refused:
            await signal(outrider, run_id, Signal.RESUME, signal_id="r-2")
        assert refused.value.code == "INVALID_PHASE_TRANSITION"
    types = await types_of(outrider, run_id)
    assert types.count("SignalRejected") == 4


async def test_one_signal_sent_many_times_at_once_is_one_decision(outrider: Outrider) -> None:
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    step_id = await failed_step(outrider)
    answers = await asyncio.gather(
        *(
            signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id, signal_id="again")
            for _ in range(8)
        )
    )
    assert len({answer.run_seq for answer in answers}) == 1
    assert (await types_of(outrider, run_id)).count("SignalAccepted") == 1
    paused = await asyncio.gather(
        *(signal(outrider, run_id, Signal.PAUSE, signal_id="hold") for _ in range(8))
    )
    assert len({answer.run_seq for answer in paused}) == 1
    await check_against_log(outrider, campaign_id)


async def test_a_run_that_waits_for_approval_can_be_stopped_and_not_paused(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id, run_id = await awaiting_approval(outrider)
    with pytest.raises(PreconditionFailed, match="approve") as held:
        await control(outrider, campaign_id, Action.PAUSE)
    assert held.value.details["current_state"] == "in_progress"
    again = await control(outrider, campaign_id, Action.START)
    assert (again.changed, again.waits_for) == (False, "approval")
    await control(outrider, campaign_id, Action.STOP)
    with pytest.raises(SignalRefused):
        await signal(outrider, run_id, Signal.APPROVE)
    async with working(outrider):
        await until_ended(outrider, run_id)
    assert sandbox.requests == 0
    types = await types_of(outrider, run_id)
    assert "RunApproved" not in types
    assert "RunStarted" not in types
    assert types[-1] == "RunCancelled"
    await check_against_log(outrider, campaign_id)


async def test_a_run_without_a_remainder_needs_no_approval(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id, run_id = await awaiting_approval(outrider, 5)
    await signal(outrider, run_id, Signal.APPROVE)
    sandbox.answers.clear()
    async with working(outrider):
        await until(lambda: sandbox.requests == 5)
        await control(outrider, campaign_id, Action.STOP)
        sandbox.answers.set()
        await until_ended(outrider, run_id)
        retried = await control(outrider, campaign_id, Action.RETRY)
    assert retried.run_id is not None
    assert (retried.state, retried.waits_for) == (PhaseState.COMPLETED, None)
    types = await types_of(outrider, retried.run_id)
    assert types == ["RunApproved", "RunStarted", "RunCompleted"]
    await check_against_log(outrider, campaign_id)


# RETRY_STEP


async def failed_step(outrider: Outrider) -> str:
    """A worker took a step, failed, and its next engine attempt is far away."""
    shop = Workshop(outrider.store)
    now = outrider.clock.now()
    (job,) = await shop.claim(ONE, now=now)
    await outrider.step_recorder(ONE).started([job])
    assert await outrider.store.write(
        lost_jobs.fail(job, "broken", now + FAR, ONE, outrider.ids, now)
    )
    return job.id


async def test_retry_step_is_a_new_logical_attempt_with_its_own_key(
    outrider: Outrider,
) -> None:
    campaign_id = await created(outrider, 10)
    run_id = await begun(outrider, campaign_id)
    step_id = await failed_step(outrider)
    await signal(outrider, run_id, Signal.RETRY_STEP, by=OPERATOR, step_id=step_id)
    await work_until_terminal(outrider, run_id)
    told = await events_of(outrider, run_id)
    about = [
        (event.type, event.logical_attempt, event.engine_attempt)
        for event in told
        if event.step_id == step_id and event.emitter == "activity"
    ]
    assert about == [("StepStarted", 1, 1), ("StepStarted", 2, 2), ("StepCompleted", 2, 2)]
    assert len({event.idempotency_key for event in told}) == len(told)
    accepted = next(event for event in told if event.type == "SignalAccepted")
    assert accepted.payload["logicalAttemptId"] == "2"
    await check_against_log(outrider, campaign_id)


async def test_retry_step_needs_a_step_that_can_be_retried(outrider: Outrider) -> None:
    campaign_id = await created(outrider, 20)
    run_id = await begun(outrider, campaign_id)
    with pytest.raises(InvalidInput, match="step"):
        await signal(outrider, run_id, Signal.RETRY_STEP)
    with pytest.raises(InvalidInput, match="step"):
        await signal(outrider, run_id, Signal.PAUSE, step_id=outrider.ids.new())
    for unknown in (outrider.ids.new(), "no-such-step"):
        with pytest.raises(NotFound, match="no step"):
            await signal(outrider, run_id, Signal.RETRY_STEP, step_id=unknown)
    found = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
    with pytest.raises(SignalRefused, match="has not started"):
        await signal(outrider, run_id, Signal.RETRY_STEP, step_id=found[0].id)
    (job,) = await Workshop(outrider.store).claim(ONE, now=outrider.clock.now())
    with pytest.raises(SignalRefused, match="worker is already processing"):
        await signal(outrider, run_id, Signal.RETRY_STEP, step_id=job.id)
    await outrider.store.write(jobs.release(job, outrider.clock.now(), outrider.clock.now()))
    await work_until_terminal(outrider, run_id)
    with pytest.raises(SignalRefused, match="ended"):
        await signal(outrider, run_id, Signal.RETRY_STEP, step_id=job.id)


async def test_retry_step_hurries_items_that_wait_for_their_next_attempt(
    database: str, tmp_path: Path, sandbox: HoldingSandbox
) -> None:
    """The item's own attempt is the contract's; only its waiting is cut short."""
    sandbox.change_faults({"failRate": 1.0})
    gateway = target("sms.all", "sms", sandbox.http_url)
    async with opened(database, tmp_path, gateway) as outrider:
        campaign_id = await created(outrider, 5)
        run_id = await begun(outrider, campaign_id)
        async with working(outrider, retry=RetrySchedule(first_seconds=3_600)):
            await until_parked(outrider, run_id)
            sandbox.change_faults({"failRate": 0.0})
            (job,) = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
            await signal(outrider, run_id, Signal.RETRY_STEP, step_id=job.id)
            accounting = await until_ended(outrider, run_id)
        assert accounting.sent == 5
        await check_against_log(outrider, campaign_id)


async def until_parked(outrider: Outrider, run_id: RunId) -> None:
    soon = outrider.clock.now() + timedelta(seconds=60)
    async with asyncio.timeout(60):
        while True:
            found = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
            if all(job.status == "queued" and job.run_at and job.run_at > soon for job in found):
                return
            await asyncio.sleep(0.02)


async def test_retry_step_runs_a_dead_step_of_a_handlers_phase_again(
    outrider: Outrider, database: str
) -> None:
    campaign_id = await created(outrider, 20, order=("dns_validation", LAUNCH))
    run_id = await begun(outrider, campaign_id, "dns_validation")
    found = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
    assert found
    async with raw_sql(database) as raw:
        await raw.run(
            "UPDATE job_queue SET status = 'dead', outcome = 'failed', failed = item_count,"
            f" fence = 5, run_at = NULL WHERE id = '{found[0].id}'"
        )
    await control(outrider, campaign_id, Action.PAUSE, "dns_validation")
    await signal(outrider, run_id, Signal.RETRY_STEP, step_id=found[0].id)
    (job, *_) = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
    assert (job.status, job.outcome, job.failed) == ("queued", None, 0)
    assert job.paused, "nothing begins while its phase is paused"
    assert await phase_state(outrider, campaign_id, "dns_validation") == PhaseState.PAUSED
    assert (await observe(outrider, run_id))[0].status == "queued"


async def test_a_signal_whose_commit_was_not_confirmed_is_not_given_twice(
    outrider: Outrider,
) -> None:
    """The store drops the line after the commit; the signal is tried again, and was one."""
    _, run_id = await awaiting_approval(outrider)
    inner, lost = outrider.store, [True]

    class Deaf:
        def __getattr__(self, name: str) -> object:
            return getattr(inner, name)

        async def write(self, transaction: Transaction[Result]) -> Result:
            result = await inner.write(transaction)
            if lost and script_name(transaction) == "approve":
                lost.clear()
                raise StoreUnavailable("the answer to the commit was lost")
            return result

    outrider.run_signaller._store = Deaf()  # type: ignore[assignment]
    await signal(outrider, run_id, Signal.APPROVE, by=ADMIN)
    assert not lost
    types = await types_of(outrider, run_id)
    assert types == ["SignalAccepted", "RunApproved"]
