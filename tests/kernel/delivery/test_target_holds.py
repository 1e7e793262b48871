"""A door that is closed because calls cannot be made opens when, and only when, that is mended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import TARGET_SETUP
from outrider.domain.ids import DEFAULT_SCOPE, WorkerId
from outrider.domain.targets import TargetPolicy
from outrider.kernel.delivery.local_doors import ComeBack, Passes
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.delivery.target_holds import TargetHolds
from outrider.testing.launches import target
from tests.support.whole_runs import SteppedClock, opened

URL = "http://127.0.0.1:9"
TARGET = "sms.all"
PROBLEM = "the secret env:TOKEN is not set"


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def outrider(database: str, tmp_path: Path, clock: SteppedClock) -> AsyncIterator[Outrider]:
    async with opened(database, tmp_path, target(TARGET, "sms", URL), clock=clock) as made:
        yield made


@pytest.fixture
def gate(outrider: Outrider) -> TargetGate:
    return TargetGate(outrider.foundation, {}, TargetPolicy(), WorkerId("w"))


@pytest.fixture
def holds(outrider: Outrider, gate: TargetGate) -> TargetHolds:
    return TargetHolds(outrider.foundation, gate)


async def test_a_held_door_lets_nobody_through_until_its_reason_is_gone(
    outrider: Outrider, gate: TargetGate, holds: TargetHolds
) -> None:
    gateway = outrider.gateways.gateway(TARGET, "sms", URL)
    key = gate.door_key(DEFAULT_SCOPE, TARGET, URL)
    until = await holds.hold(key, PROBLEM)

    assert await gate.ask(key, gateway, 1) == ComeBack(until)
    assert await holds.held_for(TARGET_SETUP) == {key.shared}

    await holds.open_again(key, TARGET_SETUP)
    assert await holds.held_for(TARGET_SETUP) == set()
    assert isinstance(await gate.ask(key, gateway, 1), Passes)


async def test_a_door_held_for_another_reason_stays_closed(
    outrider: Outrider, gate: TargetGate, holds: TargetHolds
) -> None:
    gateway = outrider.gateways.gateway(TARGET, "sms", URL)
    key = gate.door_key(DEFAULT_SCOPE, TARGET, URL)
    until = await holds.hold(key, PROBLEM)

    await holds.open_again(key, "another reason")
    assert await gate.ask(key, gateway, 1) == ComeBack(until)


async def test_a_second_hold_keeps_the_time_of_the_first(
    gate: TargetGate, holds: TargetHolds, clock: SteppedClock
) -> None:
    key = gate.door_key(DEFAULT_SCOPE, TARGET, URL)
    first = await holds.hold(key, PROBLEM)
    await clock.step(1)
    assert await holds.hold(key, PROBLEM) == first
