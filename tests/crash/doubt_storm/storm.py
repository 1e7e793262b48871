"""Kills at random over one family's simulator, and what becomes of what they put in doubt.

`storm` launches, kills, lets the provider be well again, waits until evidence has settled what it
can, settles the rest from the provider's complete record, and counts.
"""

import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from outrider.domain.evidence import EvidenceKind
from outrider.gateways.sandbox import Outcome
from outrider.testing import launches
from tests.crash.doomed_workers import DoomedWorker, Executioner
from tests.crash.settling_scene import KEY, LIMITS, REST_SECONDS, Case, opened

SETTLED_SECONDS = 60.0
LATE_MS = 800.0
"""By how much its look-up lies: absent at first, then present."""
LATENCY_MS = 15.0
IDLE_SECONDS = 8.0
"""A worker that has called nothing by then is killed all the same: all may be sent."""
KILLS_PER_SPENT_MESSAGE = 100
"""A message that costs its worker ten times over is a person's matter: by chance, one in so many
kills may."""

CALLS_CUT_OFF = "SELECT count(*) FROM attempt_history WHERE outcome IN ('abandoned', 'disproved')"


@dataclass(frozen=True)
class Scale:
    kills: int
    items: int
    workers: int


@dataclass(frozen=True)
class Figures:
    """One storm's, as a line of the results file."""

    case: str
    store: str
    seed: int
    kills: int
    idle_kills: int
    """Of workers that had nothing to call: they looked for work, or settled doubts."""
    items: int
    calls: int
    calls_repeated: int
    doubts: int
    settled_during_kills: int
    settled_by: dict[str, int]
    left_to_people: int
    seconds_to_settle: float
    doubled: int
    lost: int
    other_requests: int
    """Repeats that were not the same to the byte, where the provider compares."""

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


def store_of(database: str) -> str:
    return "sqlite" if database.startswith("sqlite") else "postgres"


async def storm(database: str, folder: Path, case: Case, scale: Scale, seed: int) -> Figures:
    """Raises AssertionError if anything was lost or sent twice, or is not settled by then."""
    dice = random.Random(f"{seed} {case}")
    async with opened(database, folder, case, seed) as scene:
        sandbox = scene.sandbox
        await scene.begin(scale.items)
        sandbox.change_faults(
            {
                "latencyMs": LATENCY_MS, "dropRate": 0.04, "loseRate": 0.04, "lookUpFailRate": 0.3,
                "lookUpDelayMs": LATE_MS,
            }
        )  # fmt: skip
        executioner = Executioner(scene.outrider.settings, LIMITS, scene.log, dice, scale.workers)
        await executioner.kill(
            scale.kills, idle_seconds=IDLE_SECONDS, most_seconds=case.life_seconds
        )
        during = await scene.verdicts()
        # From now on it is well.
        sandbox.change_faults({"dropRate": 0, "loseRate": 0, "lookUpFailRate": 0, "latencyMs": 0})
        if case.kinds == {EvidenceKind.RECEIPT}:
            await scene.report()
        last = DoomedWorker(scene.outrider.settings, LIMITS, scene.log)
        try:
            seconds, people = await scene.settled()
            given = await scene.verdicts()
            await scene.settle_by_hand()
            await scene.settled()
            assert not await scene.unsettled()
            if scene.run_id is not None:
                # Its last job may wait for its turn, with nothing left to call.
                await launches.until_terminal(scene.outrider, scene.run_id, seconds=REST_SECONDS)
        finally:
            last.kill()
            await last.gone()
        await scene.prove(scale.items)
        [(cut,)] = await scene.rows(CALLS_CUT_OFF)
        return Figures(
            case.name, store_of(database), seed, executioner.kills, executioner.idle_kills,
            scale.items, sandbox.requests, cut, given.total() + people.total(), during.total(),
            {f"{kind}: {verdict}": count for (kind, verdict), count in sorted(given.items())},
            people.total(), round(seconds, 1),
            doubled=sum(count - 1 for count in sandbox.deliveries.values()),
            lost=scale.items - len(sandbox.deliveries),
            other_requests=sandbox.outcomes[Outcome.OTHER_REQUEST],
        )  # fmt: skip


def problems(case: Case, figures: Figures) -> list[str]:
    """What is wrong with them, besides what no storm gets past."""
    found = []
    kinds = {each.partition(":")[0] for each in figures.settled_by}
    if others := kinds - {each.value for each in case.kinds}:
        found.append(f"settled by {sorted(others)}, which it does not declare")
    if figures.seconds_to_settle >= SETTLED_SECONDS:
        found.append(f"took {figures.seconds_to_settle} s to settle")
    if figures.other_requests:
        found.append(f"{figures.other_requests} repeats were other requests")
    if case.kinds and EvidenceKind.RECEIPT not in case.kinds:
        # Only what cost its worker again and again is not repeated to find out.
        allowed = figures.kills // KILLS_PER_SPENT_MESSAGE if case.kinds == KEY else 0
        if figures.left_to_people > allowed:
            found.append(f"{figures.left_to_people} were left to people, {allowed} may be")
    return found
