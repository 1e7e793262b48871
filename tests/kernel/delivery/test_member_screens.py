"""One policy for every door: what campaigns and intents wait for, by a clock the test steps."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from outrider.bootstrap import Outrider
from outrider.documents.policy import parse_policy
from outrider.domain.campaigns import Message
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.local_launches import LocalLaunch
from outrider.domain.purposes import Purpose
from outrider.domain.recipients import Recipient, recipient
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.delivery.campaign_delivery import CampaignDelivery
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import audit_trail, policy_holds
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.policy_holds import PolicyHold
from outrider.settings import TargetSettings
from outrider.testing.launches import launch, message, observe, people, target
from tests.support.whole_runs import SteppedClock, items_of, opened, working

NIGHT = datetime(2026, 1, 5, 3, tzinfo=UTC)
"""A Monday, 3 o'clock in London."""
QUIET = {"quietHours": {"from": "21:00", "to": "08:00"}, "timeZone": "Europe/London"}
SMS = message(Channel.SMS, "sms.all")
HOUR = 3_600
STEP_SECONDS = 0.5
STEPS_MOST = 2_000


class Scene:
    def __init__(self, outrider: Outrider, clock: SteppedClock) -> None:
        self.outrider = outrider
        self.clock = clock

    async def set(self, **document: Any) -> None:
        policies = parse_policy(json.dumps(document).encode())
        await self.outrider.policy_keeper.put(DEFAULT_SCOPE, policies, "test")

    async def until(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Let time pass in small steps: workers sleep by this clock."""
        for _ in range(STEPS_MOST):
            if await look():
                return
            await self.clock.step(STEP_SECONDS)
            await asyncio.sleep(0.005)
        raise AssertionError("it never came to be")

    async def holds(self, run_id: RunId) -> dict[str, PolicyHold]:
        found = await self.outrider.store.read(policy_holds.of_runs([run_id]))
        return {hold.waits_for: hold for hold in found.get(run_id, [])}

    async def waiting(self, run_id: RunId) -> dict[str, int]:
        return {name: hold.waiting for name, hold in (await self.holds(run_id)).items()}

    async def sent(self, run_id: RunId) -> int:
        _, accounting = await observe(self.outrider, run_id)
        assert accounting.holds, accounting
        return accounting.sent

    async def audited(self, event: str) -> list[Any]:
        page = await self.outrider.store.read(
            audit_trail.page(DEFAULT_SCOPE, None, None, FIRST, 100)
        )
        return [json.loads(entry.detail) for entry in page if entry.event == event]


@pytest.fixture
async def scene(database: str, tmp_path: Path) -> AsyncIterator[Scene]:
    clock = SteppedClock(NIGHT)
    async with Sandbox(Faults(seed=7)) as sandbox:
        sms = target("sms.all", "sms", sandbox.http_url)
        async with opened(database, tmp_path, sms, clock=clock) as outrider:
            yield Scene(outrider, clock)


def londoners(count: int) -> list[Recipient]:
    return people(count)


async def test_a_campaign_waits_for_the_recipients_morning(scene: Scene) -> None:
    """It is three o'clock in London, and by the phone number, ten in the evening in New York; the
    attribute says that somebody with a London number is in Tokyo, where it is noon."""
    await scene.set(**QUIET)
    audience = [
        *londoners(5),
        recipient("new-york", phone="+12125550123", attributes='{"firstName": "N"}'),
        recipient(
            "tokyo",
            phone="+447700900999",
            attributes='{"firstName": "T", "timeZone": "Asia/Tokyo"}',
        ),
    ]
    run_id = await launch(scene.outrider, [SMS], audience)
    async with working(scene.outrider):

        async def all_but_one_wait() -> bool:
            return await scene.waiting(run_id) == {"quiet_hours": 6}

        await scene.until(all_but_one_wait)
        assert list(await items_of(scene.outrider, run_id)) == ["tokyo"], "no row for who waits"
        hold = (await scene.holds(run_id))["quiet_hours"]
        assert hold.until == datetime(2026, 1, 5, 8, tzinfo=UTC)
        await scene.clock.step(5 * HOUR)

        async def london_is_sent() -> bool:
            return await scene.sent(run_id) == 6

        await scene.until(london_is_sent)

        async def new_york_waits() -> bool:
            return await scene.waiting(run_id) == {"quiet_hours": 1}

        await scene.until(new_york_waits)
        await scene.clock.step(5 * HOUR)

        async def everybody_is_sent() -> bool:
            return await scene.sent(run_id) == 7

        await scene.until(everybody_is_sent)
    items = await items_of(scene.outrider, run_id)
    assert {item.attempts for item in items.values()} == {1}
    hold = (await scene.holds(run_id))["quiet_hours"]
    assert (hold.waiting, hold.items) == (0, 6), "how many waited is remembered"


async def test_a_window_that_closes_in_the_middle_parks_the_run_and_the_next_one_resumes_it(
    database: str, tmp_path: Path
) -> None:
    clock = SteppedClock(NIGHT)
    paced = TargetSettings(rate_per_second=2, remembers_references="for_good")
    async with Sandbox(Faults(seed=7)) as sandbox:
        sms = target("sms.all", "sms", sandbox.http_url)
        async with opened(
            database, tmp_path, sms, clock=clock, targets={"sms.all": paced}
        ) as outrider:
            scene = Scene(outrider, clock)
            minute = {"days": ["mon"], "from": "03:00", "to": "03:01"}
            hours = {"days": ["tue"], "from": "03:00", "to": "09:00"}
            await scene.set(sendingWindow=[minute, hours], timeZone="Europe/London")
            run_id = await launch(outrider, [SMS], londoners(200), batch_size=80)

            async def is_parked() -> bool:
                left = 200 - await scene.sent(run_id)
                return await scene.waiting(run_id) == {"sending_window": left}

            async with working(outrider, worker_id=WorkerId("first")):
                await scene.until(is_parked)
                sent = await scene.sent(run_id)
                assert 0 < sent < 200, "it was open at first"
                hold = (await scene.holds(run_id))["sending_window"]
                assert hold.until == NIGHT + timedelta(days=1)
                await clock.step(HOUR)
                await scene.until(is_parked)
                assert sandbox.deliveries.total() == await scene.sent(run_id) == sent

            async def everybody_is_sent() -> bool:
                return await scene.sent(run_id) == 200

            async with working(outrider, worker_id=WorkerId("second")):
                await clock.step((hold.until - clock.now()).total_seconds())
                await scene.until(everybody_is_sent)
            assert sandbox.deliveries.total() == 200
            assert {each.attempts for each in (await items_of(outrider, run_id)).values()} == {1}
            certificate = await outrider.certifier.certify(DEFAULT_SCOPE, run_id)
            assert certificate.holds


async def test_a_changed_policy_wakes_what_waits_for_the_former_one(scene: Scene) -> None:
    await scene.set(**QUIET)
    run_id = await launch(scene.outrider, [SMS], londoners(5))
    async with working(scene.outrider):

        async def waits() -> bool:
            return await scene.waiting(run_id) == {"quiet_hours": 5}

        await scene.until(waits)
        await scene.set()

        async def is_sent() -> bool:
            return await scene.sent(run_id) == 5

        await scene.until(is_sent)
    assert scene.clock.now() < datetime(2026, 1, 5, 7, tzinfo=UTC)


async def test_exempt_transactional_messages_go_at_night_and_the_audit_log_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so before anybody is called: a crash in between leaves no call unrecorded."""
    at_first_call: list[Any] = []
    call_routes = CampaignDelivery._call_routes

    async def noted(self: CampaignDelivery, *given: Any) -> Any:
        at_first_call.append(await scene.audited("policy.exempted"))
        return await call_routes(self, *given)

    monkeypatch.setattr(CampaignDelivery, "_call_routes", noted)
    await scene.set(**QUIET, exempt=["order_receipt"])
    receipt = Message(
        "receipt", Channel.SMS, "sms.all", "Hi {{ firstName }}",
        purpose=Purpose("order_receipt", transactional=True),
    )  # fmt: skip
    run_id = await launch(scene.outrider, [receipt], londoners(3))
    async with working(scene.outrider):

        async def is_sent() -> bool:
            return await scene.sent(run_id) == 3

        await scene.until(is_sent)
    [entry] = await scene.audited("policy.exempted")
    assert entry == {"topic": "order_receipt", "wouldWait": {"quiet_hours": 3}}
    assert at_first_call == [[entry]]


async def test_beyond_the_cap_a_campaign_waits_or_skips(scene: Scene) -> None:
    """Two campaigns to the same three people, and one message a day to each."""
    await scene.set(frequencyCap={"messages": 1, "perHours": 24})
    first = await launch(scene.outrider, [SMS], londoners(3))
    async with working(scene.outrider):

        async def first_is_sent() -> bool:
            return await scene.sent(first) == 3

        await scene.until(first_is_sent)
        second = await launch(scene.outrider, [SMS], londoners(4))

        async def one_of_four_is_sent() -> bool:
            return (await scene.sent(second), await scene.waiting(second)) == (
                1,
                {"frequency_cap": 3},
            )

        await scene.until(one_of_four_is_sent)
        await scene.set(frequencyCap={"messages": 1, "perHours": 24, "whenReached": "skip"})

        async def rest_is_skipped() -> bool:
            _, accounting = await observe(scene.outrider, second)
            return (accounting.sent, accounting.skipped) == (1, 3)

        await scene.until(rest_is_skipped)
    items = await items_of(scene.outrider, second)
    assert {item.reason for item in items.values()} == {None, "frequency_cap"}


async def test_an_intent_waits_for_the_morning_and_its_deadline_with_it(scene: Scene) -> None:
    await scene.set(**QUIET)
    submissions = scene.outrider.submissions
    payload = {"to": "+447700900123", "message": "Hello"}
    await submissions.submit(DEFAULT_SCOPE, Submission("night", "sms.all", payload))
    async with working(scene.outrider):

        async def waits() -> bool:
            intent, _ = await submissions.intent(DEFAULT_SCOPE, "night")
            return intent.waits_for == "quiet_hours"

        await scene.until(waits)
        await scene.clock.step(5 * HOUR)

        async def is_accepted() -> bool:
            intent, _ = await submissions.intent(DEFAULT_SCOPE, "night")
            return intent.status == "ACCEPTED"

        await scene.until(is_accepted)
    _, attempts = await submissions.intent(DEFAULT_SCOPE, "night")
    assert len(attempts) == 1


async def test_a_launch_at_local_time_reaches_everybody_at_their_own_nine_o_clock(
    scene: Scene,
) -> None:
    """It is noon in Tokyo, three in London and ten in the evening in New York. One run, one
    certificate."""
    local = LocalLaunch(datetime(2026, 1, 5, 9), "America/New_York")
    audience = [
        *londoners(3),
        recipient("tokyo", phone="+819012345678", attributes='{"firstName": "T"}'),
        recipient("new-york", phone="+12125550123", attributes='{"firstName": "N"}'),
        recipient("nowhere", phone="+881612345678", attributes='{"firstName": "N"}'),
    ]
    run_id = await launch(scene.outrider, [SMS], audience, local_launch=local)
    sent_at: dict[str, datetime] = {}
    async with working(scene.outrider):
        for hours, reached in (
            (0, {"tokyo"}),
            (6, {"lead-0", "lead-1", "lead-2"}),
            (5, {"new-york", "nowhere"}),
        ):
            await scene.clock.step(hours * HOUR)

            async def are_sent(expected: int = len(sent_at) + len(reached)) -> bool:
                return await scene.sent(run_id) == expected

            await scene.until(are_sent)
            for who in await items_of(scene.outrider, run_id):
                sent_at.setdefault(who, scene.clock.now())
            assert reached <= sent_at.keys()
    hold = (await scene.holds(run_id))["local_time"]
    assert (hold.waiting, hold.items) == (0, 5)
    certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.holds, certificate
    assert certificate.as_document()["held"] == [{"waitsFor": "local_time", "items": 5}]
