"""A gateway that turns connections away, resets them or answers byte by byte loses nobody."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from outrider.testing.launches import target
from tests.support.deployment import deployed
from tests.support.eventually import eventually
from tests.support.witness_gateway import Fault, WitnessGateway

NAME = "sms.crowded"
PEOPLE = 60
AT_ONCE = 12
MOST = 0.8
CONNECTIONS = 3
SETTINGS: dict[str, dict[str, object]] = {
    NAME: {
        "concurrency": AT_ONCE, "retry_first_seconds": 0.2, "retry_cap_seconds": 0.5,
        "breaker_seconds": 0.5, "remembers_references": "for_good",
    }
}  # fmt: skip


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    async with WitnessGateway(tmp_path, "gateway") as started:
        yield started


@pytest.mark.parametrize("beyond", ["refuse", "reset"])
async def test_connections_beyond_a_limit_lose_nobody(
    gateway: WitnessGateway, database: str, tmp_path: Path, beyond: Literal["refuse", "reset"]
) -> None:
    """A2: refused connections beyond a limit are throttling, and the budget shrinks to it. A reset
    may have come after the message, so that is asked again under the same reference."""
    await gateway.script(
        latency_seconds=0.05, connections_most=CONNECTIONS, connections_beyond=beyond, dedupes=True
    )
    crowded = target(NAME, "sms", gateway.url, policy="max_attempts", maxAttempts=20)
    async with deployed(tmp_path, database, [crowded], settings=SETTINGS) as deployment:
        campaign = await deployment.launch(NAME, PEOPLE)
        run = await deployment.until_run_ended(campaign.run_id)
        items = await deployment.items(campaign.run_id)
    assert run["accounting"]["sent"] == PEOPLE, run
    if beyond == "refuse":
        # A refused connection is no attempt; one that waited in the line when its socket was closed
        # may be reset after the message.
        assert Counter(item["attemptsMade"] for item in items)[1] > MOST * PEOPLE
    assert not gateway.accepted_twice()


@pytest.mark.parametrize("fault", ["reset_unread", "reset_read", "trickle"])
async def test_a_gateway_that_breaks_off_or_answers_byte_by_byte_for_a_while_loses_nobody(
    gateway: WitnessGateway, database: str, tmp_path: Path, fault: Fault
) -> None:
    await gateway.script(fault=fault, trickle_seconds=0.01, dedupes=True)
    broken = target(NAME, "sms", gateway.url, policy="max_attempts", maxAttempts=20)
    async with deployed(tmp_path, database, [broken], settings=SETTINGS) as deployment:
        campaign = await deployment.launch(NAME, PEOPLE)
        await eventually(lambda: len(gateway.requests()) >= AT_ONCE, what="the fault was not met")
        await gateway.script(dedupes=True)
        run = await deployment.until_run_ended(campaign.run_id)
    assert run["accounting"]["sent"] == PEOPLE, run
    assert not gateway.accepted_twice()
