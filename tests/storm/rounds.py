"""One round of the storm: a launch whose workers are killed one after another, and what came of it.

Whatever was cut off settles by evidence; then the provider's record is compared with the ledger.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.settings import Settings
from outrider.testing.postgres import create_database, drop_database
from tests.crash.doomed_workers import DoomedWorker
from tests.crash.settling_scene import KEY, LIMITS, LOOK_UP, NEVER, Case, Scene, opened
from tests.storm.weathers import Disk, Storm, Weather

LEASE_SECONDS = 2.0
DOOMED = replace(
    LIMITS, lease_seconds=LEASE_SECONDS, heartbeat_seconds=LEASE_SECONDS / 3,
    store_backoff_seconds=0.1,
)  # fmt: skip
CASES = (
    Case("key", "sms", KEY, {"remembers_references": "for_good"}),
    Case("look-up", "sms", LOOK_UP, NEVER, asks=True),
)
WORKERS = 3
IDLE_SECONDS = 4.0
LIFE_SECONDS = 0.08
"""How long a worker lives after its first call, at most."""
FROZEN_SHARE = 0.15
FROZEN_SECONDS = (LEASE_SECONDS + 0.2, LEASE_SECONDS + 1.5)
AWAKE_SECONDS = 0.5
ITEMS_PER_KILL = 3


@dataclass(frozen=True)
class Round:
    """What happened in it. `lost` and `doubled` have to be 0."""

    weather: str
    evidence: str
    seed: int
    kills: int
    idle_kills: int
    frozen: int
    strikes: dict[str, int]
    items: int
    calls: int
    doubts: int
    left_to_people: int
    seconds: float
    doubled: int
    lost: int
    certified: bool

    @property
    def held(self) -> bool:
        return not self.doubled and not self.lost and self.certified


class Strikers:
    """Keep three workers at work, and kill them at random moments."""

    def __init__(self, settings: Settings, log: Path, dice: random.Random, freezes: bool) -> None:
        self._settings = settings
        self._log = log
        self._dice = dice
        self._freezes = freezes
        self.counts: Counter[str] = Counter()

    async def kill(self, times: int) -> None:
        left = iter(range(times))
        async with asyncio.TaskGroup() as group:
            for _ in range(WORKERS):
                group.create_task(self._in_turn(left))

    async def _in_turn(self, left: Iterator[int]) -> None:
        for _ in left:
            worker = DoomedWorker(self._settings, DOOMED, self._log)
            was_calling = await worker.until_it_calls(IDLE_SECONDS)
            await asyncio.sleep(self._dice.uniform(0, LIFE_SECONDS))
            if self._freezes and self._dice.random() < FROZEN_SHARE:
                worker.freeze()
                await asyncio.sleep(self._dice.uniform(*FROZEN_SECONDS))
                worker.wake()
                self.counts["frozen"] += 1
                await asyncio.sleep(self._dice.uniform(0, AWAKE_SECONDS))
            # One that ended by itself was not killed.
            self.counts["killed"] += worker.is_alive
            self.counts["idle"] += worker.is_alive and not was_calling
            worker.kill()
            await worker.gone()


async def one_round(
    weather: Weather, case: Case, disk: Disk, folder: Path, seed: int, kills: int
) -> Round:
    dice = random.Random(f"{seed} {weather}")
    began = monotonic()
    database = await create_database(disk.server.url)
    storm = Storm(weather, disk, dice)
    async with opened(database, folder, case) as scene:
        await scene.begin(kills * ITEMS_PER_KILL)
        faults: dict[str, Any] = {"latencyMs": 15.0, "dropRate": 0.02, "loseRate": 0.02}
        scene.sandbox.change_faults(faults)
        async with storm.way_to(database):
            settings = scene.outrider.settings.model_copy(update={"database_url": storm.url})
            freezes = weather is Weather.FREEZES
            strikers = Strikers(settings, scene.log, dice, freezes)
            await _struck(storm, strikers, kills)
        scene.sandbox.change_faults({"dropRate": 0, "loseRate": 0, "latencyMs": 0})
        doubts, people = await _settled(scene)
        found = await _outcome(scene, kills * ITEMS_PER_KILL)
        result = Round(
            weather.value, case.name, seed, strikers.counts["killed"], strikers.counts["idle"],
            strikers.counts["frozen"], dict(storm.strikes), kills * ITEMS_PER_KILL,
            scene.sandbox.requests, doubts, people, round(monotonic() - began, 1), *found,
        )  # fmt: skip
    await drop_database(disk.server.url, database)
    return result


async def _struck(storm: Storm, strikers: Strikers, kills: int) -> None:
    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(storm.rage(over))
        try:
            await strikers.kill(kills)
        finally:
            over.set()


async def _settled(scene: Scene) -> tuple[int, int]:
    """How many doubts there were, and how many of them were left to people."""
    last = DoomedWorker(scene.outrider.settings, LIMITS, scene.log)
    try:
        _, people = await scene.settled()
        doubts = (await scene.verdicts()).total() + people.total()
        await scene.settle_by_hand()
        await scene.settled()
    finally:
        last.kill()
        await last.gone()
    return doubts, people.total()


async def _outcome(scene: Scene, items: int) -> tuple[int, int, bool]:
    deliveries = scene.sandbox.deliveries
    doubled = sum(count - 1 for count in deliveries.values())
    rows = await scene.rows("SELECT count(*) FROM channel_outbox WHERE status = 'sent'")
    lost = items - min(len(deliveries), int(rows[0][0]))
    assert scene.run_id is not None
    certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, scene.run_id)
    return doubled, lost, certificate.holds
