"""One campaign starves nobody: other targets, other campaigns and other tenants go on at once.

Measured from the submission to the moment at which the provider saw the call begin, while a
campaign is rate-limited, slow, or huge, on one process, on three, and on Temporal.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from outrider.testing.launches import target
from tests.support.deployment import Deployment, Launched, deployed, phone
from tests.support.eventually import eventually
from tests.support.raw_sql import raw_sql
from tests.support.witness_gateway import WitnessGateway

if TYPE_CHECKING:
    from tests.support.temporal_server import TemporalServer

LIMITED, SLOW, HUGE = "sms.limited", "sms.slow", "noop.huge"
INTENTS, SMALL, TENANT = "sms.intents", "sms.small", "sms.tenant"
RATE_PER_SECOND = 20
SLOW_SECONDS = 2.0
BEGINS_WITHIN_SECONDS = 1.0
OFFER_RECIPIENTS = 20
BATCH = 100
"""So small that there are more jobs than all processes together work on at once."""
IN_A_DOCUMENT = 30_000
ROUNDS = 5
ROUND_SECONDS = 0.5
TRIES = 2
BUILD_UP_SECONDS = 1.0


@dataclass(frozen=True)
class Scale:
    name: str
    limited: int
    slow: int
    huge: int
    rounds: int


QUICK = Scale("quick", 3_000, 3_000, 20_000, ROUNDS)
STORM = Scale("storm", 20_000, 30_000, 1_000_000, 100)
SCALES = [
    pytest.param(QUICK, id=QUICK.name),
    pytest.param(STORM, id=STORM.name, marks=pytest.mark.storm),
]
LAYOUTS = [pytest.param(0, id="serve"), pytest.param(2, id="serve-and-2-work")]


@pytest.fixture
async def slow(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    async with WitnessGateway(tmp_path, "slow") as started:
        await started.script(latency_seconds=SLOW_SECONDS)
        yield started


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    """Of everybody who should not notice the campaign."""
    async with WitnessGateway(tmp_path, "gateway") as started:
        yield started


IDLE_ROUNDS = 3


def shared_deployment(
    gateway: WitnessGateway,
    slow: WitnessGateway,
    database: str,
    folder: Path,
    worker_processes: int,
    environment: dict[str, str] | None = None,
) -> AbstractAsyncContextManager[Deployment]:
    targets = [
        target(LIMITED, "sms", f"{gateway.url}/limited", mode="batch"),
        target(SLOW, "sms", slow.url, mode="batch"),
        target(HUGE, "noop", "noop:", mode="batch"),
        target(SMALL, "sms", f"{gateway.url}/small", mode="batch"),
        target(TENANT, "sms", f"{gateway.url}/tenant", policy="deadline", maxAcceptanceSeconds=30),
        target(
            INTENTS, "sms", f"{gateway.url}/intents", policy="deadline", maxAcceptanceSeconds=30
        ),
    ]
    return deployed(
        folder,
        database,
        targets,
        settings={LIMITED: {"rate_per_second": RATE_PER_SECOND}, SLOW: {"concurrency": 4}},
        worker_processes=worker_processes,
        environment=environment,
    )


@pytest.fixture(params=LAYOUTS)
async def deployment(
    request: pytest.FixtureRequest,
    gateway: WitnessGateway,
    slow: WitnessGateway,
    database: str,
    tmp_path: Path,
) -> AsyncIterator[Deployment]:
    async with shared_deployment(gateway, slow, database, tmp_path, request.param) as made:
        yield made


@pytest.fixture
async def deployment_on_temporal(
    gateway: WitnessGateway,
    slow: WitnessGateway,
    database: str,
    tmp_path: Path,
    temporal_server: "TemporalServer",
) -> AsyncIterator[Deployment]:
    environment = {
        "OUTRIDER_ENGINE": "temporal",
        "OUTRIDER_TEMPORAL_ADDRESS": temporal_server.address,
        "OUTRIDER_TEMPORAL_TASK_QUEUE": f"test-{uuid4()}",
    }
    async with shared_deployment(gateway, slow, database, tmp_path, 1, environment) as made:
        yield made


@pytest.mark.parametrize("load", ["limited", "slow", "huge", "nothing"])
@pytest.mark.parametrize("scale", SCALES)
async def test_messages_of_others_start_within_a_second(
    deployment: Deployment, gateway: WitnessGateway, database: str, scale: Scale, load: str
) -> None:
    """A1: realtime intents, a small campaign and another tenant do not wait for one campaign."""
    await check_that_nobody_waits(deployment, gateway, database, scale, load)


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
@pytest.mark.parametrize("load", ["limited", "huge"])
@pytest.mark.parametrize("scale", SCALES)
async def test_on_temporal_messages_of_others_start_within_a_second(
    deployment_on_temporal: Deployment,
    gateway: WitnessGateway,
    database: str,
    scale: Scale,
    load: str,
) -> None:
    """A1 on the other engine."""
    await check_that_nobody_waits(deployment_on_temporal, gateway, database, scale, load)


async def check_that_nobody_waits(
    deployment: Deployment, gateway: WitnessGateway, database: str, scale: Scale, load: str
) -> None:
    """Twice if need be: a machine busy with other tests can stop for seconds, once. Who is starved
    by a campaign is late every time."""
    key = await deployment.key_of("another/project/production")
    late = {}
    for first in range(0, TRIES * scale.rounds, scale.rounds):
        within = BEGINS_WITHIN_SECONDS + 2 * await idle_seconds(deployment, gateway, first)
        await begin(deployment, database, load, scale)
        late = await late_messages(
            deployment, gateway, key, range(first, first + scale.rounds), within
        )
        if not late:
            break
    assert not late, f"{len(late)} began late or not at all, {TRIES} times: {late}"
    if load == "limited":
        limited = [r for r in gateway.requests() if r.path.startswith("/limited")]
        assert len(limited) > RATE_PER_SECOND, "the rate-limited campaign goes on all the while"


async def late_messages(
    deployment: Deployment, gateway: WitnessGateway, key: str, rounds: range, within: float
) -> dict[str, float | str]:
    submitted: dict[str, float] = {}
    offers: list[Launched] = []
    for number in rounds:
        ours, theirs = phone(60_000_000 + number), phone(70_000_000 + number)
        submitted[ours] = await deployment.submit(f"ours-{number}", INTENTS, ours)
        submitted[theirs] = await deployment.submit(f"theirs-{number}", TENANT, theirs, key=key)
        if number % ROUNDS == 0:
            first = 80_000_000 + number * OFFER_RECIPIENTS
            offer = await deployment.launch(SMALL, OFFER_RECIPIENTS, first=first)
            submitted[phone(first)] = offer.at
            offers.append(offer)
        await asyncio.sleep(ROUND_SECONDS)
    # Who has not begun when the time of the last is over is late, and told so.
    with suppress(AssertionError):
        await eventually(lambda: submitted.keys() <= gateway.first_began().keys(), seconds=within)
    began = gateway.first_began()
    for offer in offers:
        run = await deployment.until_run_ended(offer.run_id, 5.0)
        assert run["accounting"]["sent"] == OFFER_RECIPIENTS, run
    return {
        to: round(began[to] - at, 2) if to in began else "not begun"
        for to, at in submitted.items()
        if to not in began or began[to] - at > within
    }


async def idle_seconds(deployment: Deployment, gateway: WitnessGateway, first: int = 0) -> float:
    """How long a message takes to begin while nothing else is sent: what the machine makes of it,
    busy with other tests as it may be."""
    took = []
    for number in range(first, first + IDLE_ROUNDS):
        to = phone(90_000_000 + number)
        at = await deployment.submit(f"idle-{number}", INTENTS, to)
        await deployment.until_intent(
            f"idle-{number}", lambda intent: intent["status"] != "PENDING", 20.0
        )
        took.append(gateway.first_began()[to] - at)
    return max(took)


async def begin(deployment: Deployment, database: str, load: str, scale: Scale) -> None:
    """The campaign that the others should not notice, well under way."""
    match load:
        case "limited":
            campaign = await deployment.launch(LIMITED, scale.limited, batch_size=BATCH)
        case "slow":
            campaign = await deployment.launch(SLOW, scale.slow, batch_size=BATCH)
        case "huge":
            # What a document cannot hold is written by the database itself.
            beyond = scale.huge - min(scale.huge, IN_A_DOCUMENT)
            campaign = await deployment.launch(
                HUGE,
                scale.huge - beyond,
                before_start=lambda id: more_people(database, id, beyond) if beyond else no_more(),
            )
        case _:
            return
    await deployment.until_run(
        campaign.run_id,
        lambda run: run["accounting"]["intended"] > 0 and run["status"] == "running",
        30.0,
    )
    await let_it_build_up()


async def more_people(database: str, campaign_id: str, count: int) -> None:
    """So many more in the campaign's audience."""
    first, last = IN_A_DOCUMENT, IN_A_DOCUMENT + count - 1
    numbers = {
        "postgresql": f"generate_series({first}, {last}) AS numbered (n)",
        "sqlite": f"(WITH RECURSIVE c (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c"
        f" WHERE n < {last}) SELECT n FROM c) AS numbered",
    }[database.partition(":")[0]]
    async with raw_sql(database) as raw:
        await raw.run(
            "INSERT INTO audience_members (campaign_id, position, recipient_id, phone, attributes)"
            f" SELECT campaign_id, n, 'more-' || n, '+4479' || n, attributes FROM {numbers}"
            f" CROSS JOIN (SELECT * FROM audience_members WHERE campaign_id = '{campaign_id}'"
            " AND position = 0) m"
        )


async def no_more() -> None:
    """Everybody is in the document."""


async def let_it_build_up() -> None:
    """A load is one only after a while, and nothing tells when."""
    await asyncio.sleep(BUILD_UP_SECONDS)


@pytest.mark.parametrize("campaigns", [6])
async def test_many_rate_limited_campaigns_leave_room_for_the_others(
    deployment: Deployment, gateway: WitnessGateway, campaigns: int
) -> None:
    """A1: a target that waits holds no slot, however many campaigns wait for it."""
    within = BEGINS_WITHIN_SECONDS + 2 * await idle_seconds(deployment, gateway)
    for number in range(campaigns):
        await deployment.launch(LIMITED, 1_000, first=number * 1_000)
    await let_it_build_up()
    first = 80_000_000
    offer = await deployment.launch(SMALL, OFFER_RECIPIENTS, first=first)
    asked = await deployment.submit("ours", INTENTS, phone(60_000_000))
    run = await deployment.until_run_ended(offer.run_id, 5.0)
    assert run["accounting"]["sent"] == OFFER_RECIPIENTS, run
    single = phone(60_000_000)
    await eventually(lambda: single in gateway.first_began(), what="it was not called")
    began = gateway.first_began()
    assert began[phone(first)] - offer.at < within
    assert began[single] - asked < within
