"""Domain events outlive routers and workers: killed anywhere, each event is one message."""

import asyncio
import random

import pytest

from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.domain.states import Channel
from outrider.domain.workflows import RecipientConfig
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from outrider.kernel.transactions.doubt_checks import WORN_OUT
from tests.crash.scene import ACTOR, Provider, Scene
from tests.support.raw_sql import raw_sql

COUNT = 60
KILLS = 4
SETTLE_SECONDS = 150
"""Longer than a retry waits, should one be needed."""

BOUNDARIES = ["screen:after:1", "open:after:1", "call:after:5", "close:before:1"]


async def emit_all(scene: Scene, count: int = COUNT) -> None:
    step = WrittenStep(
        1, Channel.SMS, "Hi {{ lead.id }}", submission_target=Provider.SMS.target,
        recipients=RecipientConfig(include_lead_contact=True),
    )  # fmt: skip
    rule = WrittenRule("lead_welcome", Channel.SMS, "lead", steps=(step,))
    await scene.outrider.rule_keeper.apply(DEFAULT_SCOPE, [rule], ACTOR, prune=False)
    batch = [
        Emission(
            f"event-{number}",
            "lead_welcome",
            {"lead": {"id": f"l-{number}", "phone": f"+4477{number:08d}"}},
        )
        for number in range(count)
    ]
    await scene.outrider.event_intake.emit_all(DEFAULT_SCOPE, batch)


async def all_succeeded(scene: Scene, count: int = COUNT) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            async with raw_sql(scene.database) as raw:
                counted = dict(
                    await raw.run(
                        "SELECT status, count(*) FROM notification_outbox GROUP BY status"
                    )
                )
            if counted == {"succeeded": count}:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("boundary", BOUNDARIES)
async def test_a_worker_killed_with_an_events_message_loses_none_and_sends_none_twice(
    scene: Scene, boundary: str
) -> None:
    await emit_all(scene)
    first = scene.start_worker(kill_at=boundary)
    await first.died_of_its_boundary()
    scene.start_worker()
    await all_succeeded(scene)
    assert len(scene.sandbox.deliveries) == COUNT
    assert set(scene.sandbox.deliveries.values()) == {1}


@pytest.mark.parametrize(
    ("database", "seed"), [("sqlite", 1), ("sqlite", 2), ("postgres", 3)], indirect=["database"]
)
async def test_processes_killed_while_they_route_and_send_leave_each_event_one_message(
    scene: Scene, seed: int
) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    scene.sandbox.change_faults({"latencyMs": 5})
    await emit_all(scene)
    for _ in range(KILLS):
        worker = scene.start_worker()
        # Not a wait for anything: this is the random moment.
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        worker.kill()
    scene.start_worker()
    await all_succeeded(scene)
    assert len(scene.sandbox.deliveries) == COUNT
    assert set(scene.sandbox.deliveries.values()) == {1}


async def doubted(scene: Scene) -> tuple[object, ...]:
    """Attempts, repeats and reason of the one message, once it is in doubt."""
    async with asyncio.timeout(SETTLE_SECONDS), raw_sql(scene.database) as raw:
        while True:
            rows = await raw.run(
                "SELECT attempts, repeats, reason FROM channel_outbox WHERE doubted_at IS NOT NULL"
            )
            if rows:
                return tuple(rows[0])
            await asyncio.sleep(0.02)


async def test_a_workflows_message_that_kills_every_worker_is_in_doubt_after_one_attempt(
    scene: Scene,
) -> None:
    """S2: the same bound at every door. Its call is repeated a few times, which policies do not
    count; then it waits, and settles once the killing is over."""
    await emit_all(scene, 1)
    for _ in range(1 + CALL_REPEATS_MAX):
        await scene.start_worker(kill_at="call:after:1").died_of_its_boundary()
    scene.start_worker()
    assert await doubted(scene) == (1, CALL_REPEATS_MAX, WORN_OUT)
    assert scene.sandbox.requests == 1 + CALL_REPEATS_MAX
    await all_succeeded(scene, 1)
    assert scene.sandbox.deliveries.total() == 1
    async with raw_sql(scene.database) as raw:
        assert [tuple(row) for row in await raw.run("SELECT attempts FROM channel_outbox")] == [
            (1,)
        ]
