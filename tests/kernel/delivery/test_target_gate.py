"""XM: what one workspace is told by a provider is not everybody's wait."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.call_results import (
    Accepted,
    AttemptError,
    Closes,
    Held,
    Progress,
    Throttled,
)
from outrider.domain.ids import DEFAULT_SCOPE, Scope, TenantId, WorkerId, WorkspaceId
from outrider.domain.targets import TargetPolicy
from outrider.kernel.delivery.gateway_routes import Route
from outrider.kernel.delivery.local_doors import ComeBack, Passes
from outrider.kernel.delivery.target_gate import TargetGate
from outrider.kernel.transactions.alerts import LAST, alerts_page
from outrider.limits.delivery import REFUSED_MAX, REFUSED_SECONDS
from outrider.ports.gateway import Gateway
from outrider.testing.launches import target
from tests.support.whole_runs import SteppedClock, opened

URL = "http://127.0.0.1:9"
TARGET = "sms.all"
OTHERS = Scope(
    TenantId("00000000-0000-7000-8000-0000000000aa"),
    WorkspaceId("00000000-0000-7000-8000-0000000000ab"),
)


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
async def outrider(database: str, tmp_path: Path, clock: SteppedClock) -> AsyncIterator[Outrider]:
    async with opened(database, tmp_path, target(TARGET, "sms", URL), clock=clock) as made:
        yield made


def gate_of(outrider: Outrider, clock: SteppedClock) -> TargetGate:
    return TargetGate(replace(outrider.foundation, clock=clock), {}, TargetPolicy(), WorkerId("w"))


def gateway_of(outrider: Outrider) -> Gateway:
    return outrider.gateways.gateway(TARGET, "sms", URL)


async def test_a_long_retry_after_holds_one_workspace_and_the_others_for_a_minute(
    outrider: Outrider, clock: SteppedClock
) -> None:
    gate, gateway = gate_of(outrider, clock), gateway_of(outrider)
    told, other = (gate.door_key(scope, TARGET, URL) for scope in (DEFAULT_SCOPE, OTHERS))
    began = clock.now()
    passes = await gate.ask(told, gateway, 1)
    assert isinstance(passes, Passes)
    gate.note(told, passes, Throttled("HTTP 429", 3_600))
    await gate.publish(told)

    closed = await gate.ask(told, gateway, 1)
    assert isinstance(closed, ComeBack)
    assert (closed.at - began).total_seconds() == 3_600
    waits = await gate.ask(other, gateway, 1)
    assert isinstance(waits, ComeBack)
    assert (waits.at - began).total_seconds() == 60
    doors = (await outrider.target_keeper.overview()).doors
    assert all(
        "it asked to wait 3,600 s" in str(door.reason) for door in doors.values() if door.reason
    )

    await clock.step(60)
    probe = await gate.ask(other, gateway, 1)
    assert isinstance(probe, Passes)
    assert probe.is_probe
    gate.note(other, probe, Accepted("1"))
    await gate.publish(other)
    assert isinstance(await gate.ask(other, gateway, 5), Passes)
    # Whoever was told keeps to it, and is let in when the time has come.
    assert isinstance(await gate.ask(told, gateway, 1), ComeBack)
    await clock.step(3_540)
    assert isinstance(await gate.ask(told, gateway, 1), Passes)


async def subjects(outrider: Outrider, scope: Scope) -> list[str]:
    """What the alerts that stand in a workspace are about."""
    page = alerts_page(scope, LAST, 10, only_open=True)
    return [each.subject for each in await outrider.store.read(page)]


async def test_a_door_that_opens_for_one_workspace_leaves_the_alerts_of_others_open(
    outrider: Outrider, clock: SteppedClock
) -> None:
    """XM: each has its own credential refused, and one of them is mended."""
    gate, gateway = gate_of(outrider, clock), gateway_of(outrider)
    mended, other = (gate.door_key(scope, TARGET, URL) for scope in (DEFAULT_SCOPE, OTHERS))
    for key in (mended, other):
        passes = await gate.ask(key, gateway, 1)
        assert isinstance(passes, Passes)
        gate.note(key, passes, Held("unauthorized", "", closes=Closes.THE_ITEM))
        await gate.publish(key)
    assert await subjects(outrider, DEFAULT_SCOPE) == await subjects(outrider, OTHERS) == [TARGET]

    await clock.step(15)
    probe = await gate.ask(mended, gateway, 1)
    assert isinstance(probe, Passes)
    gate.note(mended, probe, Accepted("1"))
    await gate.publish(mended)
    assert await subjects(outrider, DEFAULT_SCOPE) == []
    assert await subjects(outrider, OTHERS) == [TARGET]


@pytest.mark.parametrize("asks", [None, 10, 60, 61])
async def test_a_workspace_over_its_quota_does_not_keep_the_others_out(
    outrider: Outrider, clock: SteppedClock, asks: float | None
) -> None:
    """XM: it took the probe whenever the door might open, and closed it for everybody again."""
    gate, gateway = gate_of(outrider, clock), gateway_of(outrider)
    over, other = (gate.door_key(scope, TARGET, URL) for scope in (DEFAULT_SCOPE, OTHERS))
    taken = 0
    for _ in range(600):
        for key in (over, other):
            passes = await gate.ask(key, gateway, 1)
            if isinstance(passes, ComeBack):
                continue
            taken += key is other
            gate.note(key, passes, Throttled("HTTP 429", asks) if key is over else Accepted("1"))
            await gate.publish(key)
        await clock.step(1)
    assert taken > 450


async def test_a_refusal_of_a_workspaces_own_credentials_closes_only_its_own_door(
    outrider: Outrider, clock: SteppedClock
) -> None:
    """R10: a quota of one account closed the target for all the others."""
    gate, gateway = gate_of(outrider, clock), gateway_of(outrider)
    over, other = (gate.door_key(scope, TARGET, URL) for scope in (DEFAULT_SCOPE, OTHERS))
    route = Route(TARGET, URL, gateway, is_scoped=True)
    passes = await gate.ask(over, gateway, 1)
    assert isinstance(passes, Passes)
    gate.note(over, passes, route.as_the_door_sees(Throttled("HTTP 429", 30)))
    await gate.publish(over)

    waits = await gate.ask(over, gateway, 1)
    assert isinstance(waits, ComeBack)
    assert (waits.at - clock.now()).total_seconds() == 30
    assert isinstance(await gate.ask(other, gateway, 5), Passes)


REFUSED = AttemptError(Progress.NOT_SENT, "connection_failed", "connection refused")


async def test_connections_refused_beside_answered_ones_are_a_throttle(
    outrider: Outrider, clock: SteppedClock
) -> None:
    """A2: a provider that answers and refuses at once has too many connections of ours."""
    gate, gateway = gate_of(outrider, clock), gateway_of(outrider)
    key = gate.door_key(DEFAULT_SCOPE, TARGET, URL)
    passes = await gate.ask(key, gateway, 2 * REFUSED_MAX)
    assert isinstance(passes, Passes)
    gate.note(key, passes, Accepted("1"))
    for _ in range(REFUSED_MAX - 1):
        gate.note(key, passes, REFUSED)
    await gate.publish(key)
    assert isinstance(await gate.ask(key, gateway, 1), Passes), "so few may be chance"
    gate.note(key, passes, REFUSED)
    await gate.publish(key)
    assert isinstance(await gate.ask(key, gateway, 1), ComeBack)
    door = (await outrider.target_keeper.overview()).doors[key.shared]
    assert door.reason is not None
    assert door.failures == 0, "nothing of it counts against the target as a failure"


async def test_connections_refused_by_a_target_that_answers_nobody_are_failures(
    outrider: Outrider, clock: SteppedClock
) -> None:
    gate, gateway = gate_of(outrider, clock), gateway_of(outrider)
    key = gate.door_key(DEFAULT_SCOPE, TARGET, URL)
    passes = await gate.ask(key, gateway, 20)
    assert isinstance(passes, Passes)
    gate.note(key, passes, Accepted("1"))
    await clock.step(REFUSED_SECONDS + 1)
    for _ in range(TargetPolicy().breaker_failures - 1):
        gate.note(key, passes, REFUSED)
    await gate.publish(key)
    assert isinstance(await gate.ask(key, gateway, 1), Passes)
    gate.note(key, passes, REFUSED)
    await gate.publish(key)
    assert isinstance(await gate.ask(key, gateway, 1), ComeBack)
