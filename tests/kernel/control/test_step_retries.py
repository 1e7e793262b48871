"""Steps that begin anew, by a signal or by the plan of their run, and whose attempt is whose."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import Progress
from outrider.domain.campaigns import LAUNCH, CampaignDefinition, StepRetries
from outrider.domain.errors import Forbidden, OutriderError, SignalRefused
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, Fence, RecipientId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.recipients import Recipient
from outrider.domain.run_events import event_key
from outrider.domain.signals import Signal
from outrider.domain.states import Channel, IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.kernel.delivery.item_drafter import ItemDrafter
from outrider.kernel.transactions import closing, ledger_items, paging, run_jobs, run_records
from outrider.kernel.transactions.alerts import LAST, alerts_page
from outrider.kernel.transactions.closing import ClosedAttempt
from outrider.kernel.transactions.ledger import JobContext, Member
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.reserving import Draft
from outrider.kernel.transactions.run_jobs import JobLine
from outrider.limits.kernel import Limits
from outrider.ports.stages import Stage, Unobserved
from outrider.testing.launches import ACTOR, message, people, target
from tests.support.broken_server import HoldingSandbox
from tests.support.controls import begun, control, until_ended, until_nothing_is_held, until_run
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.run_logs import OPERATOR, READER, check_against_log, events_of, signal
from tests.support.whole_runs import opened, work_until_terminal, working

IMPATIENT = Limits(idle_poll_seconds=0.02, rescue_interval_seconds=0.05, job_max_attempts=1)

STEPS = ("all", "later")


@pytest.fixture
async def sandbox() -> AsyncIterator[HoldingSandbox]:
    async with HoldingSandbox() as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(
    database: str, tmp_path: Path, sandbox: HoldingSandbox
) -> AsyncIterator[Outrider]:
    gateways = [target(f"sms.{each}", "sms", sandbox.http_url, maxAttempts=2) for each in STEPS]
    async with opened(database, tmp_path, *gateways) as outrider:
        yield outrider


async def jobs_of(outrider: Outrider, run_id: RunId) -> list[JobLine]:
    return await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 100))


async def with_a_failed_step(
    outrider: Outrider, sandbox: HoldingSandbox
) -> tuple[CampaignId, RunId, str]:
    """A run of two steps: one has failed, the other waits for its target."""
    sandbox.change_faults({"failRate": 1.0})
    await outrider.target_keeper.pause(DEFAULT_SCOPE, "sms.later", ACTOR)
    messages = tuple(message(Channel.SMS, f"sms.{each}", message_id=each) for each in STEPS)
    definition = CampaignDefinition("test", (LAUNCH,), messages, 10)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(5), ACTOR)
    run_id = await begun(outrider, campaign_id)
    async with working(outrider):
        await until_run(outrider, run_id, lambda _, counted: counted.failed == 5)
        await until_nothing_is_held(outrider)
    sandbox.change_faults({"failRate": 0.0})
    failed = next(job for job in await jobs_of(outrider, run_id) if job.outcome == "failed")
    return campaign_id, run_id, failed.id


async def worked_to_the_end(outrider: Outrider, run_id: RunId) -> Accounting:
    await outrider.target_keeper.resume(DEFAULT_SCOPE, "sms.later", ACTOR)
    return await work_until_terminal(outrider, run_id)


def by_person(items: Sequence[Item]) -> dict[str, Item]:
    """Of the step that failed."""
    return {item.recipient_id: item for item in items if item.submission_target == "sms.all"}


async def items_of(outrider: Outrider, run_id: RunId) -> dict[str, Item]:
    script = ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=100)
    return by_person(await outrider.store.read(script))


async def test_retry_step_sends_to_those_who_failed_under_the_keys_they_have(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """R5: on a failed step of a launch the signal was always 409."""
    campaign_id, run_id, step_id = await with_a_failed_step(outrider, sandbox)
    failed = await items_of(outrider, run_id)
    assert {item.status for item in failed.values()} == {"failed"}
    assert {item.attempts for item in failed.values()} == {2}, "as often as its contract allows"
    await signal(outrider, run_id, Signal.RETRY_STEP, by=OPERATOR, step_id=step_id)
    accounting = await worked_to_the_end(outrider, run_id)
    assert (accounting.sent, accounting.failed) == (10, 0)
    after = await items_of(outrider, run_id)
    for who, item in failed.items():
        assert after[who].reference == item.reference
        assert after[who].id == item.id
        assert (after[who].status, after[who].attempts) == ("sent", 3)
    assert max(sandbox.deliveries.values()) == 1
    history = await outrider.store.read(ledger_items.attempts_of(next(iter(failed.values())).id))
    assert [attempt.outcome for attempt in history] == ["rejected", "rejected", "accepted"]
    about = [
        (event.type, event.logical_attempt)
        for event in await events_of(outrider, run_id)
        if event.step_id == step_id
    ]
    assert about == [
        ("StepStarted", 1), ("StepFailed", 1), ("StepStarted", 2), ("StepCompleted", 2),
    ]  # fmt: skip
    await check_against_log(outrider, campaign_id)
    certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.holds, certificate


async def test_a_retried_step_has_its_contracts_attempts_again_and_may_fail_again(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    campaign_id, run_id, step_id = await with_a_failed_step(outrider, sandbox)
    sandbox.change_faults({"failRate": 1.0})
    await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)
    accounting = await worked_to_the_end(outrider, run_id)
    assert accounting.failed == 10
    items = (await items_of(outrider, run_id)).values()
    assert [item.attempts for item in items] == [4] * 5
    await check_against_log(outrider, campaign_id)


async def test_the_database_reopens_a_failed_row_only_with_its_step(
    outrider: Outrider, sandbox: HoldingSandbox, database: str
) -> None:
    _, run_id, step_id = await with_a_failed_step(outrider, sandbox)
    anew = "status = 'queued', step_attempt = 9"
    async with raw_sql(database) as raw:
        for change in (
            "status = 'queued'",
            f"{anew}, recipient_id = 'somebody else'",
            f"{anew}, recipient_address = '+440000'",
            f"{anew}, recipient_address = NULL",
            f"{anew}, idempotency_key = {raw.blob(bytes(32))}",
        ):
            with pytest.raises(Exception, match=r"terminal ledger row never changes|keeps its key"):
                await raw.run(
                    f"UPDATE channel_outbox SET {change} WHERE id ="
                    " (SELECT id FROM channel_outbox WHERE status = 'failed' LIMIT 1)"
                )
    await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)
    await worked_to_the_end(outrider, run_id)
    async with raw_sql(database) as raw:
        with pytest.raises(Exception, match="terminal ledger row never changes"):
            await raw.run(
                "UPDATE channel_outbox SET status = 'queued', step_attempt = 9"
                " WHERE status = 'sent'"
            )


async def test_a_late_acceptance_from_before_a_step_was_restarted_stays_on_record(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """R5: somebody was sent it twice, and nothing said so."""
    _, run_id, step_id = await with_a_failed_step(outrider, sandbox)
    item = next(iter((await items_of(outrider, run_id)).values()))
    await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)
    async with working(outrider):
        await until_run(outrider, run_id, lambda _, counted: counted.sent == 5)
    now = outrider.clock.now()
    verdict = Verdict(ItemStatus.SENT, IntentStatus.ACCEPTED, Progress.ANSWERED)
    late = ClosedAttempt(item.id, 2, Fence(1), now, verdict)
    own = ClosedAttempt(item.id, 3, Fence(2), now, verdict)
    for closed in (late, own):
        await outrider.store.write(closing.close([closed], now))
        await outrider.store.write(closing.note_late([closed], outrider.ids, now))
    noted = await outrider.store.read(ledger_items.late_acceptances_of(item.id))
    assert [each.attempt for each in noted] == [2], "and not that of its own attempt"
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
    assert "LATE_ACCEPTANCE" in [alert.code for alert in await outrider.store.read(page)]


async def test_a_step_that_succeeded_is_not_retried(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    _, run_id, step_id = await with_a_failed_step(outrider, sandbox)
    await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)
    async with working(outrider):
        await until_run(outrider, run_id, lambda _, counted: counted.sent == 5)
        await until_nothing_is_held(outrider)
    with pytest.raises(SignalRefused, match="nothing in this job has failed"):
        await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)
    await worked_to_the_end(outrider, run_id)
    with pytest.raises(SignalRefused, match="ended"):
        await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)


async def test_signals_have_their_own_numbers_and_change_no_steps_attempt(
    outrider: Outrider, sandbox: HoldingSandbox
) -> None:
    """R6: a step's attempt read 1, 5, 8, 2, 2; a reader's refused signals moved it."""
    _, run_id, step_id = await with_a_failed_step(outrider, sandbox)
    for _ in range(3):
        with pytest.raises(Forbidden):
            await signal(outrider, run_id, Signal.RETRY_STEP, by=READER, step_id=step_id)
    await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)
    with pytest.raises(Forbidden):
        await signal(outrider, run_id, Signal.RETRY_STEP, by=READER, step_id=step_id)
    await worked_to_the_end(outrider, run_id)
    told = await events_of(outrider, run_id)
    attempts = [event.logical_attempt for event in told if event.step_id == step_id]
    assert attempts == [1, 1, 2, 2]
    assert {event.logical_attempt for event in told if event.step_id != step_id} == {1}
    signals = [event for event in told if event.type.startswith("Signal")]
    assert [event.step_id for event in signals] == [f"signal:{n}" for n in range(1, 6)]
    assert {event.payload["stepId"] for event in signals} == {step_id}
    for event in told:
        assert event.idempotency_key == event_key(
            run_id, event.step_id, event.logical_attempt, event.type, event.plan_version
        )  # fmt: skip
    assert len({event.idempotency_key for event in told}) == len(told)


class Stumbling(Unobserved):
    """A handler that falls over so many times."""

    def __init__(self, times: int) -> None:
        self.left = times

    def before(self, stage: Stage) -> None:
        if stage is Stage.RENDER and self.left:
            self.left -= 1
            raise OutriderError("the handler stumbled")


async def launched_with_policy(
    outrider: Outrider, retries: StepRetries, who: Sequence[Recipient] | None = None
) -> RunId:
    definition = CampaignDefinition(
        "test", (LAUNCH,), (message(Channel.SMS, "noop.all"),), 10,
        retry_policy={LAUNCH: retries},
    )  # fmt: skip
    campaign_id, _ = await outrider.deployer.create(
        DEFAULT_SCOPE, definition, who or people(4), ACTOR
    )
    return await begun(outrider, campaign_id)


async def test_a_phases_retry_policy_restarts_a_dead_step(database: str, tmp_path: Path) -> None:
    """R5: no policy of a plan ever raised a logical attempt."""
    noop = target("noop.all", "noop", "noop://here")
    async with opened(database, tmp_path, noop, limits=IMPATIENT) as outrider:
        run_id = await launched_with_policy(outrider, StepRetries(max_attempts=2))
        # Two engine attempts are what a job of one attempt takes until it is dead.
        accounting = await work_until_terminal(outrider, run_id, observer=Stumbling(2))
        assert (accounting.sent, accounting.skipped) == (4, 0)
        told = [
            (event.type, event.logical_attempt)
            for event in await events_of(outrider, run_id)
            if event.step_id is not None
        ]
        assert told == [
            ("StepStarted", 1), ("StepFailed", 1), ("StepStarted", 2), ("StepCompleted", 2),
        ]  # fmt: skip
        failed = next(e for e in await events_of(outrider, run_id) if e.type == "StepFailed")
        assert failed.payload["nextLogicalAttemptId"] == "2"
        assert "retryAt" in failed.payload
        page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
        assert "JOB_DEAD" not in [alert.code for alert in await outrider.store.read(page)]
        run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))
        await check_against_log(outrider, run.campaign_id)


async def test_one_uncallable_recipient_does_not_affect_others_of_a_restarted_step(
    database: str, tmp_path: Path
) -> None:
    """R5: one person without an address, and nobody of the step was called."""
    noop = target("noop.all", "noop", "noop://here")
    nobody, *others = people(4)
    twice = others[1]._replace(id=RecipientId("twice"))
    who = [nobody._replace(phone=None), *others, twice]
    async with opened(database, tmp_path, noop, limits=IMPATIENT) as outrider:
        run_id = await launched_with_policy(outrider, StepRetries(max_attempts=2), who)
        accounting = await work_until_terminal(outrider, run_id, observer=Stumbling(2))
        assert (accounting.sent, accounting.skipped) == (3, 2)
        items = await outrider.store.read(
            ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=100)
        )
        reasons = {item.recipient_id: item.reason for item in items if item.status == "skipped"}
        assert reasons == {"lead-0": "no_address", "twice": "duplicate_address"}
        async with raw_sql(database) as raw:
            with pytest.raises(Exception, match="terminal ledger row never changes"):
                await raw.run(
                    "UPDATE channel_outbox SET status = 'queued', skipped = false, step_attempt = 9"
                    " WHERE status = 'skipped'"
                )
        run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))
        await check_against_log(outrider, run.campaign_id)


async def test_a_retry_policy_ends_after_its_number_of_attempts(
    database: str, tmp_path: Path
) -> None:
    noop = target("noop.all", "noop", "noop://here")
    async with opened(database, tmp_path, noop, limits=IMPATIENT) as outrider:
        run_id = await launched_with_policy(outrider, StepRetries(max_attempts=3))
        accounting = await work_until_terminal(outrider, run_id, observer=Stumbling(1_000))
        assert (accounting.sent, accounting.skipped) == (0, 4)
        told = await events_of(outrider, run_id)
        failed = [event.logical_attempt for event in told if event.type == "StepFailed"]
        assert failed == [1, 2, 3]
        page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
        assert "JOB_DEAD" in [alert.code for alert in await outrider.store.read(page)]


async def test_a_run_whose_plan_waits_to_restart_a_step_can_be_stopped(
    database: str, tmp_path: Path
) -> None:
    noop = target("noop.all", "noop", "noop://here")
    async with opened(database, tmp_path, noop, limits=IMPATIENT) as outrider:
        run_id = await launched_with_policy(outrider, StepRetries(2, delay_seconds=3_600))
        async with working(outrider, observer=Stumbling(2)):

            async def is_so() -> bool:
                return "StepFailed" in [e.type for e in await events_of(outrider, run_id)]

            await eventually(is_so, seconds=60)
            run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))
            await control(outrider, run.campaign_id, Action.STOP)
            accounting = await until_ended(outrider, run_id)
        assert accounting.skipped == 4
        assert (await events_of(outrider, run_id))[-1].type == "RunCancelled"


async def test_a_stop_during_the_last_try_of_a_step_ends_it_whatever_its_policy_says(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: the step was begun anew, and the run that was stopped did not end."""
    noop = target("noop.all", "noop", "noop://here")
    async with opened(database, tmp_path, noop, limits=IMPATIENT) as outrider:
        run_id = await launched_with_policy(outrider, StepRetries(2, delay_seconds=3_600))
        run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))
        tries = 0

        async def draft(*_: object) -> NoReturn:
            nonlocal tries
            tries += 1
            if tries == 2:
                await control(outrider, run.campaign_id, Action.STOP)
            raise OutriderError("the handler stumbled")

        monkeypatch.setattr(ItemDrafter, "draft", draft)
        async with working(outrider):
            accounting = await until_ended(outrider, run_id)
        assert (tries, accounting.skipped) == (2, 4)
        assert (await events_of(outrider, run_id))[-1].type == "RunCancelled"


async def test_the_alert_of_a_runs_dead_steps_is_open_until_the_last_of_them_is_restarted(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5: it stands for all of them, and the first retry resolved it."""
    names = ("a", "b", "later")
    gateways = [target(f"noop.{each}", "noop", "noop://here") for each in names]
    drafted = ItemDrafter.draft

    async def draft(
        drafter: ItemDrafter, context: JobContext, members: Sequence[Member]
    ) -> list[Draft]:
        if context.asset.message.id == "later":
            return await drafted(drafter, context, members)
        raise OutriderError("the handler stumbled")

    monkeypatch.setattr(ItemDrafter, "draft", draft)
    async with opened(database, tmp_path, *gateways, limits=IMPATIENT) as outrider:
        await outrider.target_keeper.pause(DEFAULT_SCOPE, "noop.later", ACTOR)
        messages = tuple(message(Channel.SMS, f"noop.{each}", message_id=each) for each in names)
        definition = CampaignDefinition("test", (LAUNCH,), messages, 10)
        campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(3), ACTOR)
        run_id = await begun(outrider, campaign_id)
        async with working(outrider):
            await until_run(outrider, run_id, lambda _, counted: counted.skipped == 6)
            await until_nothing_is_held(outrider)
        dead = [job.id for job in await jobs_of(outrider, run_id) if job.status == "dead"]
        still_open = []
        for step_id in dead:
            await signal(outrider, run_id, Signal.RETRY_STEP, step_id=step_id)
            page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
            codes = [alert.code for alert in await outrider.store.read(page)]
            still_open.append("JOB_DEAD" in codes)
        assert still_open == [True, False]
