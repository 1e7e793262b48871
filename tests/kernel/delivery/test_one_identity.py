"""One identity per item: what shares a key, what is skipped for it, and how every run ends."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import Progress
from outrider.domain.campaigns import LAUNCH, CampaignDefinition, Message
from outrider.domain.delivery_counts import DeliveryCounts
from outrider.domain.errors import PreconditionFailed
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, OutboxId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import Action
from outrider.domain.states import Channel, IntentStatus, ItemStatus
from outrider.domain.submission import Verdict
from outrider.domain.times import rfc3339
from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.kernel.control.stop_sweeper import StopSweeper
from outrider.kernel.transactions import (
    alerts,
    campaigns,
    ledger,
    ledger_items,
    lost_jobs,
    overview,
    paging,
    run_jobs,
)
from outrider.kernel.transactions.alerts import AlertRecord
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.ledger_items import Item
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.phase_controls import Control, RerunScope
from outrider.kernel.transactions.run_jobs import JobLine
from outrider.limits.kernel import Limits
from outrider.settings import TargetSettings
from outrider.testing.launches import (
    ACTOR,
    launch,
    message,
    observe,
    people,
    target,
    until_terminal,
)
from outrider.testing.store_suite.workshop import ACCEPTED, ONE, OTHER, Workshop
from tests.support.controls import control, until_run
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import MOST, opened, work_until, work_until_terminal, working

TWICE = Limits(idle_poll_seconds=0.02, rescue_interval_seconds=0.05, job_max_attempts=2)
NETWORKS = ("network.one", "network.two")
CALLS, MAIL, SMS = "calls", "mail", "sms"


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "provider.ndjson"


@pytest.fixture
async def sandbox(log_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(Faults(seed=7), log_path=log_path) as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(
    database: str, tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Outrider]:
    monkeypatch.setenv("SANDBOX_TOKEN", "any")
    network = TargetSettings(credentials={"accessToken": "env:SANDBOX_TOKEN"})
    calls = TargetSettings(
        options={"accountSid": "AC1", "from": "+15550001111"},
        credentials={"authToken": "env:SANDBOX_TOKEN"},
    )
    registered = [
        *(target(each, "mastodon", sandbox.http_url) for each in NETWORKS),
        target(CALLS, "twilio_voice", sandbox.http_url),
        target(MAIL, "smtp", sandbox.smtp_url),
        target(SMS, "sms", sandbox.http_url, terminal_outcomes=["invalid_recipient"]),
    ]
    settings = {**dict.fromkeys(NETWORKS, network), CALLS: calls}
    async with opened(database, tmp_path, *registered, limits=TWICE, targets=settings) as outrider:
        yield outrider


def call(message_id: str, script_version: str | None) -> Message:
    return Message(message_id, Channel.VOICE, CALLS, f"This is {message_id}", None, script_version)


def post(message_id: str, network: str) -> Message:
    return Message(message_id, Channel.SOCIAL, network, f"Read {message_id}")


async def rows_of(outrider: Outrider, run_id: RunId) -> list[Item]:
    return await outrider.store.read(ledger_items.items_of_run(DEFAULT_SCOPE, run_id, most=MOST))


async def jobs_of(outrider: Outrider, run_id: RunId) -> list[JobLine]:
    return await outrider.store.read(run_jobs.jobs_page(run_id, FIRST, MOST))


async def open_alerts(outrider: Outrider) -> list[AlertRecord]:
    return await outrider.store.read(
        alerts.alerts_page(DEFAULT_SCOPE, alerts.LAST, MOST, only_open=True)
    )


async def test_posts_networks_calls_and_scripts_of_one_campaign_all_go_out(
    outrider: Outrider, log_path: Path
) -> None:
    """B2: their keys are contract 000's formulas, here recomputed from its own words."""
    messages = [
        post("monday", "network.one"),
        post("friday", "network.one"),
        post("elsewhere", "network.two"),
        call("first", "v1"),
        call("second", "v2"),
        call("third", None),
        call("fourth", None),
    ]
    run_id = await launch(outrider, messages, people(3), batch_size=2)
    accounting = await work_until_terminal(outrider, run_id)
    assert accounting == Accounting(intended=3 + 4 * 3, sent=3 + 4 * 3)

    run, _ = await observe(outrider, run_id)
    assets = {
        each.message.id: each
        for each in await outrider.store.read(campaigns.assets_of(run.campaign_id))
    }
    then = rfc3339(run.scheduled_for)
    expected = Counter[str]()
    for each in messages:
        asset_id = assets[each.id].id
        if each.channel is Channel.SOCIAL:
            # sha256(run_id | post_id | channel | scheduled_for)
            joined = [f"{run_id}|{asset_id}|{each.submission_target}|{then}"]
        else:
            # sha256(run_id | lead_id | script_version | scheduled_for)
            version = each.script_version or asset_id
            joined = [f"{run_id}|{lead.id}|{version}|{then}" for lead in people(3)]
        expected.update(hashlib.sha256(text.encode()).hexdigest() for text in joined)
    assert Counter(row.reference for row in await rows_of(outrider, run_id)) == expected
    assert references_delivered(log_path) == expected
    assert (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds


async def test_an_item_whose_key_another_one_holds_is_skipped_and_says_so(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    """B2: contract 000's invariant 1.3, for whatever comes past the check at creation."""
    same = [call("one", "v1"), call("two", "v1")]
    run_id = await launch(outrider, same, people(5), batch_size=2)
    accounting = await work_until_terminal(outrider, run_id)
    assert accounting == Accounting(intended=10, sent=5, skipped=5)
    assert sandbox.requests == 5
    rows = await rows_of(outrider, run_id)
    holders = {row.recipient_id: row for row in rows if row.status == "called"}
    for row in rows:
        if row.status == "skipped":
            holder = holders[row.recipient_id]
            assert row.reason == "key_held"
            assert row.error == f"the key {holder.reference} is held by item {holder.id}"
            assert row.reference != holder.reference
            assert row.attempts == 0
    certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.holds, certificate
    run, _ = await observe(outrider, run_id)
    assert run.status == "completed"


async def test_a_job_that_cannot_get_on_is_dead_at_its_maximum_and_raises_an_alert(
    outrider: Outrider, database: str
) -> None:
    """B2: it failed for ever past its maximum, and nobody was told."""
    run_id = await launch(outrider, [message(Channel.SMS, SMS)], people(3))
    async with raw_sql(database) as raw:
        await raw.run("DELETE FROM audience_members WHERE recipient_id = 'lead-1'")
    accounting = await work_until_terminal(outrider, run_id)
    assert accounting == Accounting(intended=3, waiting=1, sent=2)
    (job,) = await jobs_of(outrider, run_id)
    assert (job.status, job.outcome, job.attempts) == ("dead", "partial", 2)
    (alert,) = await open_alerts(outrider)
    assert (alert.code, alert.subject) == ("JOB_DEAD", run_id)
    assert "1 of its 3 items have no outcome" in alert.message
    run, _ = await observe(outrider, run_id)
    with pytest.raises(PreconditionFailed, match="given up without an outcome"):
        await control(outrider, run.campaign_id, Action.RERUN)
    assert not (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds
    await control(outrider, run.campaign_id, Action.RERUN, scope=RerunScope.ALL, confirm=True)
    assert await open_alerts(outrider) == []


async def test_a_job_that_cannot_even_be_closed_marks_no_item_failed(
    outrider: Outrider, database: str, sandbox: Sandbox
) -> None:
    """B2: whatever the handler trips over each time, the run ends and nobody uncalled failed."""
    run_id = await launch(outrider, [message(Channel.SMS, SMS)], people(3))
    async with raw_sql(database) as raw:
        await raw.run("UPDATE contract_snapshots SET document = '{}'")
    accounting = await work_until_terminal(outrider, run_id)
    assert accounting == Accounting(intended=3, waiting=3)
    assert sandbox.requests == 0
    (job,) = await jobs_of(outrider, run_id)
    assert (job.status, job.outcome) == ("dead", "failed")
    assert [alert.code for alert in await open_alerts(outrider)] == ["JOB_DEAD"]


async def stop(outrider: Outrider, campaign_id: CampaignId) -> None:
    await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.STOP, ACTOR)
    )


async def launched_into_doubt(
    outrider: Outrider, sandbox: Sandbox, count: int
) -> tuple[CampaignId, RunId]:
    """The provider takes every mail and hangs up without a word."""
    sandbox.faults.drop_rate = 1.0
    definition = CampaignDefinition("test", (LAUNCH,), (message(Channel.EMAIL, MAIL),), 2)
    campaign_id, _ = await outrider.deployer.create(DEFAULT_SCOPE, definition, people(count), ACTOR)
    started = await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.START, ACTOR)
    )
    assert started.run_id is not None
    await work_until(outrider, started.run_id, lambda seen: seen.in_doubt == count)
    return campaign_id, started.run_id


async def test_a_stop_ends_a_run_whose_items_are_in_doubt_and_they_stay_in_doubt(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    """B2: it stood still until a person decided, however often it was stopped."""
    campaign_id, run_id = await launched_into_doubt(outrider, sandbox, 5)
    await stop(outrider, campaign_id)
    accounting = await work_until_terminal(outrider, run_id)
    assert accounting == Accounting(intended=5, in_doubt=5)
    run, _ = await observe(outrider, run_id)
    assert run.status == "failed"
    certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert not certificate.holds
    assert [each.name for each in certificate.criteria if not each.holds] == ["every_item_terminal"]
    snapshot = await outrider.phase_controller.snapshot(DEFAULT_SCOPE, campaign_id)
    shown = snapshot.phases[0].accounting
    assert shown is not None
    assert replace(shown, delivery=None) == replace(accounting, delivery=None)


async def test_doubts_of_a_stopped_run_can_be_settled_after_its_end(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    """B2: verdicts count at once, wherever the run is shown, and the certificate follows them."""
    campaign_id, run_id = await launched_into_doubt(outrider, sandbox, 5)
    await stop(outrider, campaign_id)
    await work_until_terminal(outrider, run_id)
    sandbox.faults.drop_rate = 0.0
    rows = sorted(await rows_of(outrider, run_id), key=lambda row: row.recipient_id)
    verdicts = [DoubtVerdict.SENT, DoubtVerdict.SENT, DoubtVerdict.FAILED, DoubtVerdict.RESUBMIT]
    for row, verdict in zip(rows, verdicts, strict=False):
        await outrider.doubt_resolver.resolve(
            DEFAULT_SCOPE, OutboxId(row.id), verdict, "the provider's record", ACTOR
        )
    expected = Accounting(intended=5, in_doubt=1, sent=2, failed=2)
    run, accounting = await observe(outrider, run_id)
    assert (run.status, accounting) == ("failed", expected)
    page = await outrider.store.read(overview.overview_page(DEFAULT_SCOPE, paging.LAST, 10))
    assert [each.accounting for each in page.campaigns] == [
        replace(expected, delivery=DeliveryCounts(unknown=2))
    ]
    lines = await jobs_of(outrider, run_id)
    assert sum(line.sent for line in lines) == 2
    assert sum(line.failed for line in lines) == 2
    never_arrived = await outrider.store.read(ledger_items.item(DEFAULT_SCOPE, rows[3].id))
    assert (never_arrived.status, never_arrived.reason) == ("failed", "cancelled")
    assert not (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds
    await outrider.doubt_resolver.resolve(
        DEFAULT_SCOPE, OutboxId(rows[4].id), DoubtVerdict.SENT, "the provider's record", ACTOR
    )
    assert (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds
    # What never arrived is what a retry takes up, and nobody else.
    retried = await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, LAUNCH, Control(Action.RETRY, ACTOR)
    )
    assert retried.run_id is not None
    assert await work_until_terminal(outrider, retried.run_id) == Accounting(intended=2, sent=2)


async def test_a_stop_while_a_worker_is_about_to_park_its_job_leaves_nothing_parked(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    """B2: whatever the stop meets, queued, parked or with a worker, the run ends."""
    sandbox.faults.drop_rate = 1.0
    run_id = await launch(
        outrider, [message(Channel.EMAIL, MAIL), message(Channel.SMS, SMS, message_id="two")],
        people(30), batch_size=3,
    )  # fmt: skip
    run, _ = await observe(outrider, run_id)
    async with working(outrider):
        await until_run(outrider, run_id, lambda _, counted: counted.in_doubt > 0)
        await stop(outrider, run.campaign_id)
        accounting = await until_terminal(outrider, run_id)
    assert accounting.waiting == 0
    assert accounting.in_doubt > 0


async def test_a_stop_ends_a_run_whose_jobs_fail_each_time(
    outrider: Outrider, database: str
) -> None:
    """B2: also where not even a stop can be carried out item by item."""
    run_id = await launch(outrider, [message(Channel.SMS, SMS)], people(4), batch_size=2)
    async with raw_sql(database) as raw:
        await raw.run("UPDATE contract_snapshots SET document = '{}'")
    run, _ = await observe(outrider, run_id)
    async with working(outrider):
        await stop(outrider, run.campaign_id)
        accounting = await until_terminal(outrider, run_id)
    assert accounting == Accounting(intended=4, waiting=4)


async def test_a_run_status_that_a_hand_wrote_does_not_certify(
    outrider: Outrider, database: str
) -> None:
    """M11: what the row says counts only where the run's log and its jobs say it too."""
    audience = people(1) + people(1, prefix="reject")
    run_id = await launch(outrider, [message(Channel.EMAIL, MAIL)], audience)
    await work_until_terminal(outrider, run_id)
    run, _ = await observe(outrider, run_id)
    assert run.status == "partial"
    assert (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds
    async with raw_sql(database) as raw:
        await raw.run(f"UPDATE campaign_runs SET status = 'completed' WHERE id = '{run_id}'")
    certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert [each.name for each in certificate.criteria if not each.holds] == ["run_terminal"]
    assert "its log and jobs do not confirm" in certificate.criteria[0].detail


async def test_items_given_back_after_their_stopped_run_has_ended_get_an_outcome(
    outrider: Outrider,
) -> None:
    """B2: a stop waits for no worker that was taken for dead, and it may wake all the same."""
    shop, now = Workshop(outrider.store), outrider.clock.now()
    run_id = await shop.launch(2)
    asleep = await shop.claim_one(ONE, now=now)
    never_begun, called = await shop.open(asleep, 0, 1, now=now)
    run, _ = await observe(outrider, run_id)
    await outrider.store.write(lost_jobs.rescue_from([ONE], OTHER, shop.ids, now))
    await stop(outrider, run.campaign_id)
    later = outrider.clock.now()
    sweeping = await shop.claim_one(OTHER, now=later)
    lease = later + timedelta(seconds=30)
    assert await outrider.store.write(ledger.bury(sweeping.job, "cancelled", lease, later))
    await shop.settle(sweeping, worker=OTHER, now=later)
    assert await shop.accounting(run_id) == Accounting(intended=2, in_doubt=2)

    given_back = Verdict(
        ItemStatus.QUEUED, IntentStatus.PENDING, Progress.NOT_SENT, given_back=True
    )
    await shop.close(asleep, (called, ACCEPTED), (never_begun, given_back), now=later)
    assert await shop.accounting(run_id) == Accounting(intended=2, waiting=1, sent=1)
    sweeper = StopSweeper(outrider.foundation)
    assert await sweeper.sweep_once() == 1
    assert await shop.accounting(run_id) == Accounting(intended=2, sent=1, skipped=1)
    assert (await shop.item(never_begun)).reason == "cancelled"
    assert await sweeper.sweep_once() == 0
