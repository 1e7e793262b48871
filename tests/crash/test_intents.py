"""Single messages outlive their workers too: killed at each boundary of a lane, nothing is lost."""

import asyncio

import pytest

from outrider.domain.ids import DEFAULT_SCOPE, IdempotencyKey, intent_key
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.submissions import Intent
from tests.crash.scene import ACTOR, Provider, Scene

COUNT = 24
SETTLE_SECONDS = 60

BOUNDARIES = [
    "claim:after:1",
    "load:after:1",
    "open:before:1",
    "open:after:1",
    "call:before:5",
    "call:after:5",
    "close:before:1",
    "close:after:1",
    "settle:before:1",
    "settle:after:1",
]


def names() -> list[str]:
    return [f"intent-{number}" for number in range(COUNT)]


async def submit_all(scene: Scene, provider: Provider) -> None:
    payload = (
        {"to": "+447700900123", "message": "Hello"}
        if provider is Provider.SMS
        else {"to": "a@example.test", "subject": "Hello", "body": "Hello"}
    )
    batch = [Submission(name, provider.target, payload) for name in names()]
    await scene.outrider.submissions.submit_all(DEFAULT_SCOPE, batch)


async def at_rest(scene: Scene) -> list[Intent]:
    """All have an outcome or are in doubt."""
    async with asyncio.timeout(SETTLE_SECONDS):
        while True:
            intents = [
                (await scene.outrider.submissions.intent(DEFAULT_SCOPE, name))[0]
                for name in names()
            ]
            if all(each.status != "PENDING" or each.doubted_at for each in intents):
                return intents
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("provider", Provider)
async def test_a_worker_killed_in_a_lane_loses_no_intent_and_sends_none_twice(
    scene: Scene, provider: Provider, boundary: str
) -> None:
    await submit_all(scene, provider)
    first = scene.start_worker(kill_at=boundary)
    await first.died_of_its_boundary()
    scene.start_worker()
    intents = await at_rest(scene)
    doubted = [each for each in intents if each.doubted_at]
    if provider.dedupes:
        assert doubted == []
    delivered = scene.sandbox.deliveries
    assert all(count == 1 for count in delivered.values())
    if doubted:
        received = {IdempotencyKey(reference) for reference in delivered}
        await scene.outrider.doubt_resolver.reconcile(
            DEFAULT_SCOPE,
            run_id=None,
            received=received,
            absent=DoubtVerdict.RESUBMIT,
            evidence="the simulator's log",
            actor=ACTOR,
        )
        intents = await at_rest(scene)
    assert {each.status for each in intents} == {"ACCEPTED"}
    assert dict(scene.sandbox.deliveries) == {intent_key(name): 1 for name in names()}
