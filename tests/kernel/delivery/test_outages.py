"""A provider that is away, throttles or breaks down for a while, seen from outside.

The registry is contract 001's own example. Whatever the outage: nobody's attempts are spent on it,
deadlines are kept, and from the first healthy moment on everything flows again.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from outrider.testing.launches import target
from tests.support.deployment import Deployment, Launched, deployed, phone
from tests.support.witness_gateway import WitnessGateway

Outage = Literal["away", "http_503", "http_429"]
REALTIME, TRIES, ONE_SHOT, OTHER = "sms.realtime", "sms.tries", "sms.one_shot", "sms.other"
SECONDS_BETWEEN_INTENTS = 0.5
EXHAUSTED_WITHIN_SECONDS = 2.0
MARKER = "this text breaks the gateway"


@dataclass(frozen=True)
class Scale:
    """How long things take; a storm is the audit's own measure."""

    name: str
    deadline_seconds: int
    outage_seconds: float
    probe_seconds: float
    campaign_recipients: int

    @property
    def slack_seconds(self) -> float:
        """For the machine, on top of one probe interval."""
        return 1.5


QUICK = Scale("quick", 2, 4.0, 1.0, 200)
STORM = Scale("storm", 30, 45.0, 15.0, 1_000)
SCALES = [
    pytest.param(QUICK, id=QUICK.name),
    pytest.param(STORM, id=STORM.name, marks=pytest.mark.storm),
]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    async with WitnessGateway(tmp_path, "gateway") as started:
        yield started


def targets(gateway: WitnessGateway, scale: Scale) -> list[dict[str, object]]:
    return [
        target(
            REALTIME, "sms", gateway.url, policy="deadline",
            maxAcceptanceSeconds=scale.deadline_seconds,
            terminal_outcomes=["invalid_request", "invalid_recipient", "invalid_message"],
        ),
        target(TRIES, "sms", gateway.url, policy="max_attempts", maxAttempts=3),
        target(ONE_SHOT, "sms", gateway.url, policy="one_shot"),
    ]  # fmt: skip


def settings(scale: Scale, *names: str) -> dict[str, dict[str, object]]:
    """As the shipped settings are to a deadline of 30 s: six tries, two probes."""
    chosen = {
        "breaker_seconds": scale.probe_seconds,
        "retry_first_seconds": scale.deadline_seconds / 6,
    }
    return {name: dict(chosen) for name in names}


async def begin(gateway: WitnessGateway, outage: Outage) -> float:
    match outage:
        case "away":
            return await gateway.script(away=True)
        case "http_503":
            return await gateway.script(throttle_status=503)
        case "http_429":
            return await gateway.script(throttle_status=429)


async def submit_steadily(deployment: Deployment, submitted: dict[str, float]) -> None:
    """Two intents a second, each to a recipient of its own, until cancelled."""
    while True:
        number = len(submitted)
        intent_id = f"intent-{number}"
        submitted[intent_id] = await deployment.submit(
            intent_id, REALTIME, phone(50_000_000 + number)
        )
        await asyncio.sleep(SECONDS_BETWEEN_INTENTS)


async def when_exhausted(deployment: Deployment, intent_id: str, seconds: float) -> float:
    """How long after its submission an intent was EXHAUSTED, looked at again and again."""

    def has_ended(intent: dict[str, Any]) -> bool:
        return intent["status"] in ("ACCEPTED", "REJECTED", "EXHAUSTED")

    ended = await deployment.until_intent(intent_id, has_ended, seconds)
    assert ended["status"] == "EXHAUSTED", ended
    created = datetime.fromisoformat(ended["createdAt"])
    return time.time() - created.timestamp()


async def first_call_after(gateway: WitnessGateway, moment: float, seconds: float) -> float:
    """How long after that moment the gateway was called; within so many seconds, or it fails."""
    until = moment + seconds
    while True:
        if found := gateway.began_after(moment):
            return found[0].began_at - moment
        assert time.time() < until, f"nobody called the healthy gateway for {seconds} s"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("outage", ["away", "http_503", "http_429"])
@pytest.mark.parametrize("scale", SCALES)
async def test_a_target_recovers_from_an_outage_longer_than_its_deadline(
    gateway: WitnessGateway, database: str, tmp_path: Path, scale: Scale, outage: Outage
) -> None:
    """B1, A6: the next due item is called within one probe interval, and then everything flows."""
    async with deployed(
        tmp_path, database, targets(gateway, scale), settings=settings(scale, REALTIME)
    ) as deployment:
        submitted: dict[str, float] = {}
        traffic = asyncio.create_task(submit_steadily(deployment, submitted))
        try:
            await gateway.until_requests(1)
            began = await begin(gateway, outage)
            campaign = await deployment.launch(REALTIME, scale.campaign_recipients)
            await asyncio.sleep(max(0.0, began + scale.outage_seconds - time.time()))
            healthy_at = await gateway.heal()
            within = scale.probe_seconds + scale.slack_seconds
            await first_call_after(gateway, healthy_at, within)

            # What is submitted from the first call on is accepted, every one of it.
            await deployment.submit("afterwards", REALTIME, phone(99_000_001))
            accepted = await deployment.until_intent(
                "afterwards", lambda intent: intent["status"] != "PENDING", scale.deadline_seconds
            )
            assert accepted["status"] == "ACCEPTED", accepted
        finally:
            traffic.cancel()
        await no_campaign_stands_still(deployment, campaign)
        fresh = await deployment.launch(REALTIME, scale.campaign_recipients, first=10_000)
        run = await deployment.until_run_ended(fresh.run_id, 10.0)
        assert run["accounting"]["sent"] == scale.campaign_recipients, run
        await nothing_submitted_while_healthy_was_lost(deployment, submitted, began, healthy_at)
    assert not gateway.accepted_twice()


async def no_campaign_stands_still(deployment: Deployment, campaign: Launched) -> None:
    """What expired in the outage has ended; nothing is in doubt, nothing waits."""
    run = await deployment.until_run_ended(campaign.run_id, 10.0)
    accounting = run["accounting"]
    assert accounting["waiting"] == accounting["inDoubt"] == 0, run
    assert accounting["sent"] + accounting["failed"] == accounting["intended"], run


async def nothing_submitted_while_healthy_was_lost(
    deployment: Deployment, submitted: dict[str, float], began: float, healthy_at: float
) -> None:
    """An intent submitted before the outage or well after it was accepted."""
    settle_seconds = 1.0
    for intent_id, at in submitted.items():
        if began - settle_seconds < at < healthy_at + settle_seconds:
            continue
        intent = await deployment.until_intent(
            intent_id, lambda intent: intent["status"] != "PENDING"
        )
        assert intent["status"] == "ACCEPTED", intent


async def test_the_same_without_an_outage_accepts_everything(
    gateway: WitnessGateway, database: str, tmp_path: Path
) -> None:
    """The harness of B1 itself: with a healthy gateway nothing expires."""
    async with deployed(
        tmp_path, database, targets(gateway, QUICK), settings=settings(QUICK, REALTIME)
    ) as deployment:
        submitted: dict[str, float] = {}
        traffic = asyncio.create_task(submit_steadily(deployment, submitted))
        campaign = await deployment.launch(REALTIME, QUICK.campaign_recipients)
        run = await deployment.until_run_ended(campaign.run_id)
        await asyncio.sleep(2 * SECONDS_BETWEEN_INTENTS)
        traffic.cancel()
        assert run["accounting"]["sent"] == QUICK.campaign_recipients
        await nothing_submitted_while_healthy_was_lost(deployment, submitted, 0.0, 0.0)
    assert not gateway.accepted_twice()


@pytest.mark.parametrize("outage", ["away", "http_503", "http_429"])
@pytest.mark.parametrize("scale", SCALES)
async def test_an_item_that_expires_in_an_outage_is_exhausted_within_two_seconds_of_its_deadline(
    gateway: WitnessGateway, database: str, tmp_path: Path, scale: Scale, outage: Outage
) -> None:
    """B1, A1: a deadline is the clock's to keep, whether or not the target can be called."""
    async with deployed(
        tmp_path, database, targets(gateway, scale), settings=settings(scale, REALTIME)
    ) as deployment:
        await begin(gateway, outage)
        names = [f"expires-{number}" for number in range(30)]
        for number, name in enumerate(names):
            await deployment.submit(name, REALTIME, phone(number))
        limit = scale.deadline_seconds + EXHAUSTED_WITHIN_SECONDS
        took = await asyncio.gather(*(when_exhausted(deployment, name, limit) for name in names))
    assert max(took) <= limit + 0.5


@pytest.mark.parametrize("outage", ["away", "http_503", "http_429"])
@pytest.mark.parametrize("name", [TRIES, ONE_SHOT])
async def test_an_outage_uses_up_no_attempts(
    gateway: WitnessGateway, database: str, tmp_path: Path, name: str, outage: Outage
) -> None:
    """F2, X13, A6: 500 people over an outage of 5 s, then healthy: all sent, one attempt each."""
    people, outage_seconds = 500, 5.0
    options = {name: {"breaker_seconds": 1.0, "retry_first_seconds": 0.5}}
    async with deployed(
        tmp_path, database, targets(gateway, QUICK), settings=options
    ) as deployment:
        began = await begin(gateway, outage)
        campaign = await deployment.launch(name, people)
        await asyncio.sleep(max(0.0, began + outage_seconds - time.time()))
        run = await deployment.run(campaign.run_id)
        assert run["accounting"]["failed"] == 0, run
        await gateway.heal()
        run = await deployment.until_run_ended(campaign.run_id, 15.0)
        assert run["accounting"]["sent"] == people, run
        items = await deployment.items(campaign.run_id)
    assert {item["attemptsMade"] for item in items} == {1}
    assert len(gateway.accepted()) == people
    assert not gateway.accepted_twice()


@pytest.mark.parametrize("name", [TRIES, ONE_SHOT])
async def test_a_throttle_for_some_requests_uses_up_no_attempts(
    gateway: WitnessGateway, database: str, tmp_path: Path, name: str
) -> None:
    """F2: a gateway that answers 429 to a third of all requests loses nobody either."""
    people = 150
    await gateway.script(throttle_status=429, throttle_share=0.3, seconds=4.0)
    options = {name: {"breaker_seconds": 1.0, "retry_first_seconds": 0.5}}
    async with deployed(
        tmp_path, database, targets(gateway, QUICK), settings=options
    ) as deployment:
        campaign = await deployment.launch(name, people)
        run = await deployment.until_run_ended(campaign.run_id, 20.0)
        items = await deployment.items(campaign.run_id)
    assert run["accounting"]["sent"] == people, run
    assert {item["attemptsMade"] for item in items} == {1}
    assert not gateway.accepted_twice()


async def test_one_tenants_bad_payloads_do_not_close_a_target_for_another(
    gateway: WitnessGateway, database: str, tmp_path: Path
) -> None:
    """X13: what a payload causes is the item's own; the target stays open for everybody else."""
    await gateway.script(failing_marker=MARKER)
    options: dict[str, dict[str, object]] = {TRIES: {"breaker_seconds": 5.0}}
    async with deployed(
        tmp_path, database, targets(gateway, QUICK), settings=options
    ) as deployment:
        key = await deployment.key_of("another/project/production")
        await deployment.launch(TRIES, 200, text=MARKER, key=key)
        await gateway.until_requests(20)
        for number in range(10):
            await deployment.submit(f"good-{number}", TRIES, phone(80_000_000 + number))
        for number in range(10):
            good = await deployment.until_intent(
                f"good-{number}", lambda intent: intent["status"] != "PENDING", 4.0
            )
            assert good["status"] == "ACCEPTED", good
