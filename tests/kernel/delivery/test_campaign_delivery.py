"""Whole runs in one process against a provider that misbehaves on request, on both stores."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import SETUP_WRONG, Accepted, CallResult, Rejected
from outrider.domain.campaigns import LAUNCH, Message
from outrider.domain.errors import InvalidInput, OutriderError
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, IdempotencyKey, RunId
from outrider.domain.phases import Action
from outrider.domain.recipients import recipient
from outrider.domain.states import TERMINAL_RUNS, Channel, RunStatus
from outrider.domain.suppressions import OptOut
from outrider.domain.targets import DoorState
from outrider.gateways.directory import Gateways
from outrider.gateways.noop import NoopGateway
from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.kernel.transactions import paging, run_jobs, run_records, suppressions
from outrider.kernel.transactions.alerts import LAST, AlertCode, alerts_page
from outrider.kernel.transactions.blockers import targets_now
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.overview import overview_page
from outrider.kernel.transactions.phase_controls import Control
from outrider.limits.kernel import Limits
from outrider.ports.gateway import Gateway, Reservation
from outrider.ports.stages import Stage, Unobserved
from outrider.secrets.store import LocalSecrets
from outrider.settings import TargetSettings
from outrider.testing.launches import (
    WATCH_SECONDS,
    launch,
    message,
    observe,
    people,
    target,
    until_terminal,
)
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import (
    QUICK,
    SteppedClock,
    items_of,
    opened,
    work_until,
    work_until_terminal,
    working,
)

SMS = message(Channel.SMS, "sms.all")
PUSH = message(Channel.PUSH, "push.all", message_id="nudge")
EMAIL = message(Channel.EMAIL, "smtp.all", message_id="letter")


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "provider.ndjson"


@pytest.fixture
async def sandbox(log_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(Faults(seed=7), log_path=log_path) as sandbox:
        yield sandbox


@pytest.fixture
async def outrider(database: str, tmp_path: Path, sandbox: Sandbox) -> AsyncIterator[Outrider]:
    async with opened(database, tmp_path, *targets(sandbox)) as outrider:
        yield outrider


def targets(sandbox: Sandbox) -> list[dict[str, object]]:
    return [
        target("sms.all", "sms", sandbox.http_url, maxAttempts=50),
        target("push.all", "push", sandbox.http_url, maxAttempts=50),
        target("smtp.all", "smtp", sandbox.smtp_url, maxAttempts=50),
        target("sms.twice", "sms", sandbox.http_url, maxAttempts=2),
    ]


async def status_of(outrider: Outrider, run_id: RunId) -> str:
    return (await observe(outrider, run_id))[0].status


async def certificate_holds(outrider: Outrider, run_id: RunId) -> bool:
    return (await outrider.certifier.certify(DEFAULT_SCOPE, run_id)).holds


async def test_a_campaign_over_three_channels_reaches_everybody_once(
    outrider: Outrider, log_path: Path
) -> None:
    run_id = await launch(outrider, [SMS, PUSH, EMAIL], people(30), batch_size=10)
    counted = await work_until_terminal(outrider, run_id)
    assert (counted.intended, counted.sent) == (90, 90)
    assert await status_of(outrider, run_id) == "completed"
    delivered = references_delivered(log_path)
    assert len(delivered) == 90
    assert set(delivered.values()) == {1}
    assert await certificate_holds(outrider, run_id)
    run, _ = await observe(outrider, run_id)
    assert run.channel == "mixed"


async def test_two_recipients_with_one_id_are_refused_and_nothing_is_left(
    outrider: Outrider,
) -> None:
    with pytest.raises(InvalidInput, match="two recipients have the same id"):
        await launch(outrider, [SMS], [*people(3), *people(1)])
    assert await outrider.store.read(overview_page(DEFAULT_SCOPE, paging.LAST, 2)) == ([], None)


async def test_recipients_who_must_not_be_called_are_skipped_with_the_reason(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    audience = [
        recipient("fine", email="ada@example.test", attributes='{"firstName": "Ada"}'),
        recipient("nowhere", phone="+447700900123"),
        recipient("wrong", email="not an address"),
        recipient("smuggler", email="ada@example.test\r\nRCPT TO:<eve@example.test>"),
        recipient("again", email="ADA@example.test"),
        recipient("gone", email="Bob@Example.test", attributes='{"firstName": "Bob"}'),
    ]
    await outrider.store.write(
        suppressions.suppress(
            DEFAULT_SCOPE, "email", ["bob@example.test"], OptOut("opt-out"), outrider.clock.now()
        )
    )
    run_id = await launch(outrider, [EMAIL], audience)
    counted = await work_until_terminal(outrider, run_id)
    items = await items_of(outrider, run_id)
    assert {who: (item.status, item.reason) for who, item in items.items()} == {
        "fine": ("sent", None),
        "nowhere": ("skipped", "no_address"),
        "wrong": ("skipped", "invalid_address"),
        "smuggler": ("skipped", "invalid_address"),
        "again": ("skipped", "duplicate_address"),
        "gone": ("skipped", "suppressed"),
    }
    assert (counted.sent, counted.skipped) == (1, 5)
    assert sandbox.requests == 1


async def test_a_run_that_only_skips_is_completed_without_a_call(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    run_id = await launch(outrider, [SMS], [recipient("a"), recipient("b", phone="0770")])
    counted = await work_until_terminal(outrider, run_id)
    assert (counted.sent, counted.skipped) == (0, 2)
    assert await status_of(outrider, run_id) == "completed"
    assert sandbox.requests == 0


async def test_a_recipient_with_a_message_id_gets_that_message_only(
    outrider: Outrider, log_path: Path
) -> None:
    other = message(Channel.SMS, "sms.all", message_id="other", body="Something else")
    audience = [
        *people(2, prefix="both"),
        recipient("one", phone="+447700900009", message_id="other"),
    ]
    run_id = await launch(outrider, [SMS, other], audience)
    counted = await work_until_terminal(outrider, run_id)
    assert (counted.intended, counted.sent) == (5, 5)
    to_one = [line for line in _log(log_path) if line["to"] == "+447700900009"]
    assert len(to_one) == 1


async def test_throttling_parks_the_job_and_the_run_finishes_later(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    sandbox.change_faults({"throttleRate": 1.0, "retryAfterSeconds": 2.0})
    run_id = await launch(outrider, [SMS], people(5))
    # The worker finishes what it holds before it stops, so every answer is in the ledger.
    await work_until(outrider, run_id, lambda _seen: sandbox.requests > 0)
    (job,) = await outrider.store.read(run_jobs.job_counts(run_id))
    assert (job.status, job.attempts) == ("queued", 0)
    refused = sandbox.requests
    items = (await items_of(outrider, run_id)).values()
    told = [item for item in items if item.reason is not None]
    assert len(told) == refused
    assert {item.reason for item in told} == {"target_throttled"}
    # It waits for the door, which opens when the provider said, and no item has used up anything.
    assert {item.attempts for item in items} == {0}
    doors = (await outrider.target_keeper.overview()).doors
    # Everybody's, and that of the workspace which was told.
    assert sorted(bool(key.workspace_id) for key in doors) == [False, True]
    opens = []
    for door in doors.values():
        assert door.state is DoorState.THROTTLED
        assert door.since is not None
        assert door.opens_at is not None
        assert (door.opens_at - door.since).total_seconds() >= 2
        opens.append(door.opens_at)
    words = " ".join(await outrider.run_explainer.explain(DEFAULT_SCOPE, run_id))
    assert words.count("asks to retry later") == 1
    sandbox.change_faults({"throttleRate": 0.0})
    counted = await work_until_terminal(outrider, run_id)
    assert datetime.now(UTC) >= max(opens)
    assert counted.sent == 5
    assert {item.attempts for item in (await items_of(outrider, run_id)).values()} == {1}
    assert sandbox.requests == refused + 5
    assert sandbox.received()["duplicates"] == 0


async def test_failures_are_retried_until_everyone_is_reached(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    sandbox.change_faults({"failRate": 0.3})
    run_id = await launch(outrider, [SMS], people(40), batch_size=20)
    counted = await work_until_terminal(outrider, run_id)
    assert counted.sent == 40
    assert sandbox.outcomes["rejected"] > 0
    assert sandbox.received()["duplicates"] == 0
    assert await certificate_holds(outrider, run_id)


async def test_a_provider_that_always_fails_exhausts_the_contract(
    outrider: Outrider, sandbox: Sandbox
) -> None:
    sandbox.change_faults({"failRate": 1.0})
    twice = message(Channel.SMS, "sms.twice")
    run_id = await launch(outrider, [twice], people(3))
    counted = await work_until_terminal(outrider, run_id)
    assert counted.failed == 3
    assert await status_of(outrider, run_id) == "failed"
    for item in (await items_of(outrider, run_id)).values():
        assert (item.attempts, item.intent_status) == (2, "EXHAUSTED")
        assert (item.exhausted_reason, item.reason) == ("max_attempts", "provider_failure")
    assert sandbox.requests == 6


async def test_silence_at_a_gateway_that_dedupes_leaves_no_doubt_and_no_second_delivery(
    outrider: Outrider, sandbox: Sandbox, log_path: Path
) -> None:
    sandbox.change_faults({"dropRate": 0.3})
    run_id = await launch(outrider, [SMS], people(40), batch_size=20)
    counted = await work_until_terminal(outrider, run_id)
    assert (counted.sent, counted.in_doubt) == (40, 0)
    assert sandbox.outcomes["dropped"] > 0
    assert sandbox.outcomes["duplicate_reference"] > 0
    assert set(references_delivered(log_path).values()) == {1}
    assert await certificate_holds(outrider, run_id)


async def test_silence_at_a_gateway_that_forgets_is_doubt_until_evidence_ends_it(
    outrider: Outrider, sandbox: Sandbox, log_path: Path
) -> None:
    sandbox.change_faults({"dropRate": 0.5})
    run_id = await launch(outrider, [EMAIL], people(12))
    counted = await work_until(outrider, run_id, lambda seen: seen.waiting == 0)
    assert counted.in_doubt > 0
    assert counted.sent + counted.in_doubt == 12
    assert await status_of(outrider, run_id) == "running"
    assert not await certificate_holds(outrider, run_id)
    requests = sandbox.requests
    reconciled = await outrider.doubt_resolver.reconcile(
        DEFAULT_SCOPE,
        run_id=run_id,
        received={IdempotencyKey(each) for each in references_delivered(log_path)},
        absent=DoubtVerdict.RESUBMIT,
        evidence="the provider's log",
        actor="test",
    )
    assert (reconciled.sent, reconciled.left) == (counted.in_doubt, 0)
    ended = await work_until_terminal(outrider, run_id)
    assert (ended.sent, ended.in_doubt) == (12, 0)
    assert await certificate_holds(outrider, run_id)
    assert sandbox.requests == requests
    assert set(references_delivered(log_path).values()) == {1}


class Stumbling(Unobserved):
    """A handler that always falls over on the same stage."""

    def before(self, stage: Stage) -> None:
        if stage is Stage.RENDER:
            raise OutriderError("the handler stumbled")


class NoGateways(Gateways):
    """A directory that knows no gateway any more, as after a release that dropped a type."""

    def gateway(self, *_of: object) -> Gateway:
        raise OutriderError("the gateway type is gone")


PATIENT = Limits(
    idle_poll_seconds=0.01,
    # The clock is the test's: leases must not run out because it leaps.
    lease_seconds=10**8,
    stale_lock_seconds=10**8,
    heartbeat_seconds=10**7,
    job_max_attempts=3,
)


LOOKS_LATE = {AlertCode.PROJECTOR_LAG_HIGH, AlertCode.RUN_STALLED}
"""What the watcher may make of a clock that leaps by ten seconds at a time."""


async def test_a_job_whose_handler_always_raises_ends_dead_and_fails_no_item(
    database: str, tmp_path: Path
) -> None:
    """X2: its attempts are used up, and still nobody who was never called is marked failed."""
    clock = SteppedClock()
    noop = target("noop.all", "noop", "noop://here")
    async with opened(database, tmp_path, noop, limits=PATIENT, clock=clock) as outrider:
        run_id = await launch(outrider, [message(Channel.SMS, "noop.all")], people(4))
        async with working(outrider, retry=QUICK, observer=Stumbling()):
            async with asyncio.timeout(60):
                while RunStatus(await status_of(outrider, run_id)) not in TERMINAL_RUNS:
                    await clock.step(10)
                    await asyncio.sleep(WATCH_SECONDS)
        assert await status_of(outrider, run_id) == "failed"
        (job,) = await outrider.store.read(run_jobs.job_counts(run_id))
        assert (job.status, job.outcome, job.attempts) == ("dead", "failed", 3)
        items = await items_of(outrider, run_id)
        assert {(item.status, item.reason) for item in items.values()} == {("skipped", "job_dead")}
        assert len(items) == 4
        assert await certificate_holds(outrider, run_id)
        assert set(await open_alerts(outrider)) - LOOKS_LATE == {AlertCode.JOB_DEAD}
        run = await outrider.store.read(run_records.run(DEFAULT_SCOPE, run_id))
        again = await outrider.phase_controller.control(
            DEFAULT_SCOPE, CampaignId(run.campaign_id), LAUNCH, Control(Action.RETRY, "test")
        )
        accounting = await work_until_terminal(outrider, RunId(again.run_id or ""))
        assert accounting.sent == 4
        assert set(await open_alerts(outrider)) <= LOOKS_LATE


async def test_nothing_is_rendered_for_a_paused_target(database: str, tmp_path: Path) -> None:
    """A text that cannot be rendered meanwhile would use up the attempts of a job that waits."""
    rendered: list[Stage] = []

    class Seen(Unobserved):
        def before(self, stage: Stage) -> None:
            if stage is Stage.RENDER:
                rendered.append(stage)

    noop = target("noop.all", "noop", "noop://here")
    async with opened(database, tmp_path, noop, limits=PATIENT) as outrider:
        await outrider.target_keeper.pause(DEFAULT_SCOPE, "noop.all", "test")
        run_id = await launch(outrider, [message(Channel.SMS, "noop.all")], people(4))
        async with working(outrider, observer=Seen()):
            await until_given_back(database)
            assert rendered == []
            await outrider.target_keeper.resume(DEFAULT_SCOPE, "noop.all", "test")
            accounting = await until_terminal(outrider, run_id)
        assert accounting.sent == 4
        assert rendered


async def until_given_back(database: str) -> None:
    """Until a worker has had the jobs of runs, and given them back."""
    given_back = "SELECT min(fence) FROM job_queue WHERE run_id IS NOT NULL AND locked_by IS NULL"
    async with asyncio.timeout(60), raw_sql(database) as raw:
        while not (await raw.run(given_back))[0][0]:  # noqa: ASYNC110
            await asyncio.sleep(WATCH_SECONDS)


async def test_a_job_whose_gateway_cannot_be_created_waits_and_marks_no_item_failed(
    database: str, tmp_path: Path
) -> None:
    """F3: it died after its attempts, and everybody in it was `failed: job_dead`."""
    noop = target("noop.all", "noop", "noop://here")
    async with opened(
        database, tmp_path, noop, targets={"noop.all": TargetSettings(breaker_seconds=0.1)}
    ) as outrider:
        sound, outrider.gateways = outrider.gateways, NoGateways(LocalSecrets())
        run_id = await launch(outrider, [message(Channel.SMS, "noop.all")], people(4))
        async with working(outrider, retry=QUICK):

            async def is_so() -> bool:
                return await open_alerts(outrider, times=3) == ["TARGET_HELD"]

            await eventually(is_so, seconds=60)
        (job,) = await outrider.store.read(run_jobs.job_counts(run_id))
        assert (job.status, job.attempts) == ("queued", 0)
        assert await items_of(outrider, run_id) == {}
        doors = (await outrider.store.read(targets_now(10))).doors.values()
        assert [door.reason for door in doors] == [SETUP_WRONG]
        await outrider.gateways.close()
        outrider.gateways = sound
        accounting = await work_until_terminal(outrider, run_id)
        assert accounting.sent == 4
        assert await open_alerts(outrider) == []


async def open_alerts(outrider: Outrider, times: int = 1) -> list[str]:
    page = alerts_page(DEFAULT_SCOPE, LAST, 100, only_open=True)
    found = await outrider.store.read(page)
    return [alert.code for alert in found if alert.times >= times]


class Babbling(NoopGateway):
    """A provider whose words no database can keep as they are."""

    concurrency = 2

    async def call(self, reservation: Reservation) -> CallResult:
        if reservation.address.endswith("0"):
            return Accepted("id-\0-\udcff")
        return Rejected("refused", "because \udcff\0")


class BabblingGateways(Gateways):
    def gateway(self, *_of: object) -> Gateway:
        return Babbling()


async def test_a_providers_unstorable_words_are_kept_spelt_out(
    database: str, tmp_path: Path
) -> None:
    noop = target("noop.all", "noop", "noop://here", policy="one_shot")
    async with opened(database, tmp_path, noop) as outrider:
        outrider.gateways = BabblingGateways(LocalSecrets())
        run_id = await launch(outrider, [message(Channel.SMS, "noop.all")], people(2))
        await work_until_terminal(outrider, run_id)
        items = await items_of(outrider, run_id)
        assert items["lead-0"].provider_message_id == "id-\\x00-\\udcff"
        assert items["lead-1"].error == "because \\udcff\\x00"
        await outrider.gateways.close()


async def test_two_workers_share_a_run_without_sending_anything_twice(
    outrider: Outrider, sandbox: Sandbox, log_path: Path
) -> None:
    run_id = await launch(outrider, [SMS], people(60), batch_size=5)
    async with working(outrider):
        counted = await work_until_terminal(outrider, run_id)
    assert counted.sent == 60
    assert sandbox.requests == 60
    assert set(references_delivered(log_path).values()) == {1}


async def test_a_campaign_larger_than_a_window_is_sent_whole(
    outrider: Outrider, log_path: Path
) -> None:
    run_id = await launch(outrider, [EMAIL], people(40), batch_size=40)
    counted = await work_until_terminal(outrider, run_id)
    assert counted.sent == 40
    assert len(references_delivered(log_path)) == 40


@pytest.mark.parametrize(
    "letter",
    [
        replace(EMAIL, subject="Grüße, {{ firstName }} ☃"),
        replace(EMAIL, body="<p>Hi {{ firstName }}</p>"),
    ],
)
async def test_a_message_in_any_script_or_form_is_sent(
    outrider: Outrider, sandbox: Sandbox, letter: Message
) -> None:
    run_id = await launch(outrider, [letter], people(2))
    assert (await work_until_terminal(outrider, run_id)).sent == 2
    assert sandbox.received()["delivered"] == 2


def _log(log_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log_path.read_text().splitlines()]


async def test_a_worker_that_is_stopped_finishes_its_window_and_gives_the_job_back(
    outrider: Outrider, sandbox: Sandbox, log_path: Path
) -> None:
    sandbox.faults.latency_ms = 50
    run_id = await launch(outrider, [SMS], people(2000), batch_size=2000)
    await work_until(outrider, run_id, lambda accounting: accounting.sent > 0)
    jobs = await outrider.store.read(run_jobs.job_counts(run_id))
    assert [(count.status, count.attempts) for count in jobs] == [("queued", 0)]
    _, accounting = await observe(outrider, run_id)
    assert 0 < accounting.sent < 2000
    assert accounting.in_doubt == 0
    sandbox.faults.latency_ms = 0
    assert (await work_until_terminal(outrider, run_id)).sent == 2000
    assert set(references_delivered(log_path).values()) == {1}
