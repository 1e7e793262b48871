"""A pause is exact: once it has answered, no call begins, and those on the wire end.

Witnessed at the gateway: this machine's clock right after the answer is held against the moment at
which the kernel got the first bytes of every request.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from outrider.testing.launches import target
from tests.support.deployment import Deployment, deployed
from tests.support.eventually import observed_for
from tests.support.witness_gateway import WitnessGateway
from tests.support.witness_log import Request

TARGET = "sms.offers"
LATENCY_SECONDS = 0.3
CONCURRENCY = 16
SEED = 20_261_117


@dataclass(frozen=True)
class Scale:
    name: str
    pauses: int
    pause_recipients: int
    stops: int


QUICK = Scale("quick", 20, 4_000, 5)
STORM = Scale("storm", 200, 40_000, 50)
SCALES = [
    pytest.param(QUICK, id=QUICK.name),
    pytest.param(STORM, id=STORM.name, marks=pytest.mark.storm),
]
LAYOUTS = [pytest.param(0, id="serve"), pytest.param(2, id="serve-and-2-work")]


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    async with WitnessGateway(tmp_path, "gateway") as started:
        yield started


@pytest.fixture(params=LAYOUTS)
async def deployment(
    request: pytest.FixtureRequest, gateway: WitnessGateway, database: str, tmp_path: Path
) -> AsyncIterator[Deployment]:
    """`serve` alone, or `serve --workers 0` and workers beside it."""
    beside: int = request.param
    async with deployed(
        tmp_path,
        database,
        [target(TARGET, "sms", gateway.url)],
        settings={TARGET: {"concurrency": CONCURRENCY}},
        workers_of_server=0 if beside else 1,
        worker_processes=beside,
    ) as made:
        yield made


class Watch:
    """A time in which no call may begin."""

    def __init__(self, answered_at: float) -> None:
        self.answered_at = answered_at
        self.ended_at = float("inf")

    def broken_by(self, requests: list[Request]) -> list[float]:
        """How many seconds after the answer each call began that should not have."""
        return [
            round(request.began_at - self.answered_at, 4)
            for request in requests
            if self.answered_at < request.began_at < self.ended_at
        ]


@pytest.mark.parametrize("scale", SCALES)
async def test_no_call_starts_after_a_pause_has_returned(
    deployment: Deployment, gateway: WitnessGateway, scale: Scale
) -> None:
    """P1: what is opened and not yet called is given back; after the resume nobody is missed."""
    await gateway.script(latency_seconds=LATENCY_SECONDS)
    moments = random.Random(SEED)
    campaign = await deployment.launch(TARGET, scale.pause_recipients, batch_size=200)
    await gateway.until_requests(1)
    for _ in range(scale.pauses):
        await asyncio.sleep(moments.uniform(0.02, LATENCY_SECONDS))
        answer = await deployment.control(campaign.campaign_id, "pause")
        watch = Watch(time.time())
        assert answer["state"] == "paused", answer
        await observed_for(LATENCY_SECONDS + 0.05)
        watch.ended_at = time.time()
        late = watch.broken_by(gateway.requests())
        assert not late, f"{len(late)} calls began after the pause, up to {max(late)} s after it"
        await deployment.control(campaign.campaign_id, "resume")
    await gateway.heal()
    run = await deployment.until_run_ended(campaign.run_id, 60.0)
    assert run["accounting"]["sent"] == scale.pause_recipients, run

    assert not gateway.accepted_twice()
    assert len(gateway.requests()) == len(gateway.accepted()) == scale.pause_recipients


@pytest.mark.parametrize("scale", SCALES)
async def test_no_call_starts_after_a_stop_has_returned(
    deployment: Deployment, gateway: WitnessGateway, scale: Scale
) -> None:
    """P1: a stop is as exact, and what it did not let go is counted as skipped, not as sent."""
    people = 400
    await gateway.script(latency_seconds=LATENCY_SECONDS)
    moments = random.Random(SEED)
    for number in range(scale.stops):
        before = len(gateway.requests())
        campaign = await deployment.launch(TARGET, people, first=number * people, batch_size=200)
        await gateway.until_requests(before + 1)
        await asyncio.sleep(moments.uniform(0.02, LATENCY_SECONDS))
        await deployment.control(campaign.campaign_id, "stop")
        watch = Watch(time.time())
        run = await deployment.until_run_ended(campaign.run_id, 30.0)
        requests = gateway.requests()[before:]
        late = watch.broken_by(requests)
        assert not late, f"{len(late)} calls began after the stop, up to {max(late)} s after it"
        accounting = run["accounting"]
        assert accounting["sent"] == len(requests), run
        assert accounting["sent"] + accounting["skipped"] == people, run
    assert not gateway.accepted_twice()


async def test_calls_on_the_wire_at_a_pause_end_and_are_recorded(
    deployment: Deployment, gateway: WitnessGateway
) -> None:
    """P1: the calls that had begun are neither lost nor repeated, and the pause stays a pause."""
    await gateway.script(latency_seconds=LATENCY_SECONDS)
    campaign = await deployment.launch(TARGET, 200)
    await gateway.until_requests(CONCURRENCY)
    await deployment.control(campaign.campaign_id, "pause")
    answered_at = time.time()
    await asyncio.sleep(3 * LATENCY_SECONDS)
    begun = [request for request in gateway.requests() if request.began_at <= answered_at]
    accounting = (await deployment.run(campaign.run_id))["accounting"]
    assert accounting["sent"] == len(begun), accounting
    assert accounting["waiting"] == 200 - len(begun), accounting
    assert accounting["inDoubt"] == 0, accounting
