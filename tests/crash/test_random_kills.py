"""Workers are killed at random moments of a campaign whose provider is slow, drops and throttles.

`OUTRIDER_CRASH_SEED` moves the first seed, so that a longer search is a loop in a shell.
"""

import asyncio
import os
import random

import pytest

from tests.crash.scene import MAIL_WINDOW_ITEMS, Provider, Scene

ITEMS = 240
BATCH = 40
KILLS = 3
JOBS_IN_PARALLEL = 3
FIRST_SEED = int(os.environ.get("OUTRIDER_CRASH_SEED", "1"))
CASES = [("sqlite", FIRST_SEED + number) for number in range(8)] + [
    ("postgres", FIRST_SEED + number) for number in range(8, 12)
]


@pytest.mark.parametrize(("database", "seed"), CASES, indirect=["database"])
async def test_kills_at_random_times_lose_nothing_and_repeat_nothing(
    scene: Scene, seed: int
) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    provider = dice.choice(list(Provider))
    scene.sandbox.change_faults(
        {
            "latencyMs": dice.uniform(2, 25),
            "dropRate": dice.uniform(0, 0.04),
            "throttleRate": dice.uniform(0, 0.06),
            "failRate": dice.uniform(0, 0.06),
            "retryAfterSeconds": 0,
            "seed": seed,
        }
    )
    await scene.launch(provider, ITEMS, batch_size=BATCH)
    for _ in range(KILLS):
        worker = scene.start_worker(jobs_in_parallel=JOBS_IN_PARALLEL)
        if not await scene.provider_was_called(dice.randrange(ITEMS // KILLS)):
            break
        # Not a wait for anything: this is the random moment.
        await asyncio.sleep(dice.uniform(0, 0.03))
        worker.kill()

    last = scene.start_worker(jobs_in_parallel=JOBS_IN_PARALLEL)
    doubts = await scene.comes_to_rest()
    dropped = scene.sandbox.outcomes["dropped"]
    assert len(doubts) <= KILLS * JOBS_IN_PARALLEL * MAIL_WINDOW_ITEMS + dropped
    # What is called again on evidence must not fall into doubt once more.
    scene.sandbox.change_faults({"dropRate": 0})
    await scene.ends_well()
    await last.stop()
