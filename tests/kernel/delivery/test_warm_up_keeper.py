"""Warm-up plans: a target sends so many messages on each of its first days, and not one more."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE, RunId, WorkerId
from outrider.domain.states import Channel
from outrider.domain.suppressions import OptOut
from outrider.domain.targets import TargetPolicy
from outrider.domain.warm_up import WarmUpPlan
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.delivery.warm_up_keeper import WarmUpKeeper
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import ledger_items, policy_holds
from outrider.kernel.transactions.ledger_items import Item
from outrider.settings import TargetSettings
from outrider.testing.launches import launch, message, observe, people, target
from tests.support.domain_mail import NAME, DomainServer, mixed, people_at, shaped
from tests.support.eventually import PATIENCE_SECONDS, eventually
from tests.support.whole_runs import SteppedClock, items_of, opened, working

EVENING = datetime(2026, 1, 5, 21, tzinfo=UTC)
"""Ten o'clock in Amsterdam: its next day begins two hours later."""
MIDNIGHT = datetime(2026, 1, 5, 23, tzinfo=UTC)
DAY = 86_400
SMS = message(Channel.SMS, "sms.all")
STEPS_MOST = 10_000
"""Of half a second: an hour and a half, so that no test reaches the next day by waiting."""


def warming(*days: int, zone: str = "Europe/Amsterdam") -> dict[str, TargetSettings]:
    settings = TargetSettings(
        warm_up=list(days), warm_up_zone=zone, remembers_references="for_good"
    )
    return {"sms.all": settings}


class Scene:
    def __init__(self, outrider: Outrider, clock: SteppedClock, sandbox: Sandbox) -> None:
        self.outrider = outrider
        self.clock = clock
        self.sandbox = sandbox

    async def until(self, look: Callable[[], Awaitable[bool]]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                for _ in range(STEPS_MOST):
                    asked_at = time.monotonic()
                    if await look():
                        return
                    await self.clock.step(0.5)
                    # Leases must not run out because the database is slow, and the clock is not.
                    await asyncio.sleep(max(0.005, 4 * (time.monotonic() - asked_at)))
        raise AssertionError("it never came to be")

    async def waiting(self, run_id: RunId) -> dict[str, int]:
        found = await self.outrider.store.read(policy_holds.of_runs([run_id]))
        return {hold.waits_for: hold.waiting for hold in found.get(run_id, []) if hold.waiting}

    async def sent(self, run_id: RunId) -> int:
        _, accounting = await observe(self.outrider, run_id)
        assert accounting.holds, accounting
        return accounting.sent

    async def until_waiting(self, run_id: RunId, count: int) -> None:
        async def waits() -> bool:
            return await self.waiting(run_id) == {"warm_up": count}

        await self.until(waits)


@pytest.fixture
async def scene(database: str, tmp_path: Path) -> AsyncIterator[Scene]:
    clock = SteppedClock(EVENING)
    async with Sandbox(Faults(seed=7)) as sandbox:
        sms = target("sms.all", "sms", sandbox.http_url)
        async with opened(database, tmp_path, sms, clock=clock, targets=warming(5, 12)) as outrider:
            yield Scene(outrider, clock, sandbox)


async def test_a_campaign_sends_each_days_part_and_says_what_waits(scene: Scene) -> None:
    run_id = await launch(scene.outrider, [SMS], people(20))

    async def has_sent(count: int) -> bool:
        return await scene.sent(run_id) == count

    async with working(scene.outrider):
        await scene.until_waiting(run_id, 15)
        # Who waits is noted while the others are still being called.
        await scene.until(lambda: has_sent(5))
        assert len(await items_of(scene.outrider, run_id)) == 5, "no row for who waits"
        hold = (await scene.outrider.store.read(policy_holds.of_runs([run_id])))[run_id][0]
        assert hold.until == MIDNIGHT
        blockers = await scene.outrider.blocker_finder.of_run(run_id)
        assert [each.code.value for each in blockers] == ["TARGET_SHAPED"]
        assert "15 recipients wait for the next day of the target's warm-up plan" in (
            blockers[0].message
        )
        await scene.clock.step(2 * 3_600)
        await scene.until_waiting(run_id, 3)
        await scene.until(lambda: has_sent(17))
        await scene.clock.step(DAY)
        await scene.until(lambda: has_sent(20))
    certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, run_id)
    assert certificate.as_document()["held"] == [{"waitsFor": "warm_up", "items": 15}]
    assert scene.sandbox.deliveries.total() == 20


async def test_single_messages_beyond_the_plan_wait_in_order_without_an_attempt(
    scene: Scene,
) -> None:
    outrider = scene.outrider
    made = [
        Submission(f"intent-{each}", "sms.all", {"to": f"+44770090{each:04}", "message": "Hi"})
        for each in range(8)
    ]
    answers = await outrider.submissions.submit_all(DEFAULT_SCOPE, made)
    ids = [answer[0].outbox_id for answer in answers if isinstance(answer, tuple)]

    async def items() -> list[Item]:
        return await outrider.store.read(ledger_items.items(DEFAULT_SCOPE, ids))

    async with working(outrider):

        async def three_wait() -> bool:
            waiting = [each.waits_for for each in await items()].count("warm_up")
            return waiting == 3 and scene.sandbox.deliveries.total() == 5

        await scene.until(three_wait)
        held = [each for each in await items() if each.waits_for == "warm_up"]
        assert {(each.intent_status, each.attempts) for each in held} == {("PENDING", 0)}
        for each in held:
            assert each.next_attempt_at is not None
            assert MIDNIGHT <= each.next_attempt_at < MIDNIGHT + timedelta(seconds=1)
        await scene.clock.step(2 * 3_600)

        async def all_went() -> bool:
            return scene.sandbox.deliveries.total() == 8

        await scene.until(all_went)


async def test_days_without_messages_do_not_count_and_the_plan_ends(scene: Scene) -> None:
    outrider = scene.outrider
    async with working(outrider):
        for people_count, sent in ((5, 5), (12, 12), (30, 30)):
            run_id = await launch(outrider, [SMS], people(people_count))

            async def ended(run_id: RunId = run_id, sent: int = sent) -> bool:
                return await scene.sent(run_id) == sent

            await scene.until(ended)
            # Three days on which nothing is sent.
            await scene.clock.step(3 * DAY)
    assert outrider.warm_ups.of("sms.all") is None, "what is over costs nothing any more"


async def test_four_workers_send_exactly_the_days_part_and_the_opted_out_do_not_count(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(seed=7)) as sandbox, AsyncExitStack() as stack:
        sms = target("sms.all", "sms", sandbox.http_url)
        processes = [
            await stack.enter_async_context(
                opened(database, tmp_path, sms, targets=warming(57, 100_000))
            )
            for _ in range(4)
        ]
        outrider = processes[0]
        audience = people(200)
        opted_out = [person.phone or "" for person in audience[:40]]
        await outrider.suppression_keeper.add(
            DEFAULT_SCOPE, "sms", opted_out, OptOut("test"), "test"
        )
        run_id = await launch(outrider, [SMS], audience, batch_size=10)
        for number, each in enumerate(processes):
            await stack.enter_async_context(working(each, worker_id=WorkerId(f"worker-{number}")))

        async def is_held() -> bool:
            found = await outrider.store.read(policy_holds.of_runs([run_id]))
            _, accounting = await observe(outrider, run_id)
            waiting = sum(hold.waiting for hold in found.get(run_id, []))
            return waiting == 200 - 40 - 57 and accounting.sent >= 57

        await eventually(is_held)
        _, accounting = await observe(outrider, run_id)
        assert (accounting.sent, accounting.skipped) == (57, 40)
        assert sandbox.deliveries.total() == 57


async def test_a_recipient_domain_follows_a_plan_of_its_own_within_its_targets(
    database: str, tmp_path: Path
) -> None:
    """Two domains of one mailbox provider share its plan; a domain without one has the rest."""
    clock, server = SteppedClock(EVENING), DomainServer()
    settings = {
        "warm_up": [20, 100],
        "warm_up_zone": "Europe/Amsterdam",
        "domains": {"mailhost.test": {"warm_up": [4, 9]}, "slow.test": {"warm_up": [2, 6]}},
    }
    async with shaped(database, tmp_path, server, clock=clock, **settings) as outrider:
        scene = Scene(outrider, clock, Sandbox())
        domains = ("one.test", "two.test", "slow.test", "fast.test")
        audience = mixed(*(people_at(each, 8) for each in domains))
        run_id = await launch(outrider, [message(Channel.EMAIL, NAME)], audience, batch_size=16)

        async def sent(shared: int, slow: int, fast: int) -> bool:
            counts = [server.count(each) for each in domains]
            return [counts[0] + counts[1], *counts[2:]] == [shared, slow, fast]

        async with working(outrider, worker_id=WorkerId("a")), working(outrider):
            await scene.until_waiting(run_id, 18)
            await scene.until(lambda: sent(4, 2, 8))
            await clock.step(2 * 3_600)
            await scene.until_waiting(run_id, 3)
            await scene.until(lambda: sent(13, 8, 8))
            await clock.step(DAY)
            await scene.until(lambda: sent(16, 8, 8))


async def test_the_plan_of_every_other_domain_holds_single_messages_too(
    database: str, tmp_path: Path
) -> None:
    clock, server = SteppedClock(EVENING), DomainServer()
    async with shaped(database, tmp_path, server, clock=clock, domain_warm_up=[2]) as outrider:
        scene = Scene(outrider, clock, Sandbox())
        made = [
            Submission(f"{at}-{each}", NAME, {"to": f"p{each}@{at}", "subject": "Hi", "body": "Hi"})
            for each in range(4)
            for at in ("slow.test", "fast.test")
        ]
        answers = await outrider.submissions.submit_all(DEFAULT_SCOPE, made)
        ids = [answer[0].outbox_id for answer in answers if isinstance(answer, tuple)]

        async def four_wait() -> bool:
            items = await outrider.store.read(ledger_items.items(DEFAULT_SCOPE, ids))
            return [each.waits_for for each in items].count("warm_up") == 4

        async with working(outrider):
            await scene.until(four_wait)
            assert (server.count("slow.test"), server.count("fast.test")) == (2, 2)


def test_only_targets_with_a_plan_are_kept() -> None:
    keeper = WarmUpKeeper(
        {"sms.all": TargetPolicy(), "mail": TargetPolicy(warm_up=WarmUpPlan((1,)))}
    )
    assert keeper.of("sms.all") is None
    assert keeper.of("mail") is not None
