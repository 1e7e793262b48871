"""Domain events outlive routers and workers: killed anywhere, each event is one message."""

import asyncio
import random

import pytest

from outrider.domain.emissions import Emission
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.domain.workflows import RecipientConfig
from outrider.domain.written_workflows import WrittenRule, WrittenStep
from tests.crash.scene import ACTOR, Provider, Scene
from tests.support.raw_sql import raw_sql

COUNT = 60
KILLS = 4
SETTLE_SECONDS = 150
"""Longer than a retry waits, should one be needed."""

BOUNDARIES = ["screen:after:1", "open:after:1", "call:after:5", "close:before:1"]


async def emit_all(scene: Scene) -> None:
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
        for number in range(COUNT)
    ]
    await scene.outrider.event_intake.emit_all(DEFAULT_SCOPE, batch)


async def all_succeeded(scene: Scene) -> None:
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            async with raw_sql(scene.database) as raw:
                counted = dict(
                    await raw.run(
                        "SELECT status, count(*) FROM notification_outbox GROUP BY status"
                    )
                )
            if counted == {"succeeded": COUNT}:
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
