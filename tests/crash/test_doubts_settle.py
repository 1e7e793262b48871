"""Kills at random over every family's simulator: what they put in doubt settles itself.

Nothing is doubled and nothing lost, and what a provider can be asked is settled within a minute of
its being reachable. `DOUBTS_FIGURES` names a file that each case adds its figures to.
"""

import asyncio
import json
import os
import random
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from outrider.domain.evidence import EvidenceKind
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing import launches
from tests.crash.doomed_workers import DoomedWorker, Executioner
from tests.crash.settling_scene import (
    CONTENT,
    KEY,
    KEYS,
    LIMITS,
    LOOK_SECONDS,
    LOOK_UP,
    NEVER,
    REST_SECONDS,
    SEED,
    TARGET,
    Case,
    Scene,
    opened,
)
from tests.support.eventually import eventually

SETTLED_SECONDS = 60.0
LATE_MS = 800.0
"""By how much its look-up lies: absent at first, then present."""
LATENCY_MS = 15.0

CASES = [
    Case("sms, key", "sms", KEY, {"remembers_references": "for_good"}),
    Case("sms, look-up", "sms", LOOK_UP, NEVER, asks=True),
    Case("push, look-up", "push", LOOK_UP, NEVER, asks=True),
    Case("smtp", "smtp", LOOK_UP, asks=True),
    # Asked for their lists about what has cost too many workers to be repeated.
    Case("resend", "resend", KEY | CONTENT),
    Case("mastodon", "mastodon", KEY | CONTENT),
    Case("twilio_sms", "twilio_sms", CONTENT),
    Case("twilio_voice", "twilio_voice", CONTENT),
    Case("mailgun", "mailgun", LOOK_UP),
    Case("postmark", "postmark", LOOK_UP),
    Case("mailjet", "mailjet", LOOK_UP),
    Case("brevo", "brevo", KEY),
    Case("whatsapp_cloud", "whatsapp_cloud", frozenset({EvidenceKind.RECEIPT})),
    Case("fcm", "fcm", frozenset()),
]


@dataclass(frozen=True)
class Scale:
    name: str
    kills: int
    items: int
    workers: int


QUICK = Scale("quick", 3, 40, 1)
STORM = Scale("storm", 500, 1_500, 3)
"""On each store, so that a family has a thousand."""
STORES = ("sqlite", "postgres")
ALL = [
    pytest.param(STORES[place % 2], case, QUICK, id=f"{case}-{STORES[place % 2]}-quick")
    for place, case in enumerate(CASES)
] + [
    pytest.param(store, case, STORM, id=f"{case}-{store}-storm", marks=pytest.mark.storm)
    for case in CASES
    for store in STORES
]


CALLS_CUT_OFF = "SELECT count(*) FROM attempt_history WHERE outcome IN ('abandoned', 'disproved')"
WORN_OUT = "SELECT count(DISTINCT outbox_id) FROM attempt_history WHERE repeat > 3"


@pytest.mark.parametrize(("database", "case", "scale"), ALL, indirect=["database"])
async def test_whatever_kills_put_in_doubt_settles_itself(
    database: str, tmp_path: Path, case: Case, scale: Scale
) -> None:
    print(f"seed {SEED}")
    dice = random.Random(f"{SEED} {case}")
    async with opened(database, tmp_path, case) as scene:
        sandbox = scene.sandbox
        await scene.begin(scale.items)
        sandbox.change_faults(
            {
                "latencyMs": LATENCY_MS, "dropRate": 0.04, "loseRate": 0.04, "lookUpFailRate": 0.3,
                "lookUpDelayMs": LATE_MS,
            }
        )  # fmt: skip
        executioner = Executioner(scene.outrider.settings, LIMITS, scene.log, dice, scale.workers)
        await executioner.kill(scale.kills, idle_seconds=3.0, most_seconds=0.06)
        during = await scene.verdicts()
        # From now on it is well.
        sandbox.change_faults({"dropRate": 0, "loseRate": 0, "lookUpFailRate": 0, "latencyMs": 0})
        if case.kinds == {EvidenceKind.RECEIPT}:
            await scene.report()
        last = DoomedWorker(scene.outrider.settings, LIMITS, scene.log)
        seconds, people = await scene.settled()
        given = await scene.verdicts()
        await scene.settle_by_hand()
        await scene.settled()
        assert not await scene.unsettled()
        last.kill()
        await last.gone()
        await _prove(scene, scale, given)
        [(cut,)] = await scene.rows(CALLS_CUT_OFF)
        figures = {
            "case": case.name, "store": database.partition(":")[0], "scale": scale.name,
            "kills": executioner.kills, "idleKills": executioner.idle_kills,
            "items": scale.items, "calls": sandbox.requests, "callsRepeated": cut,
            "doubts": given.total() + people.total(), "settledDuringKills": during.total(),
            "settledBy": {f"{kind}: {verdict}": n for (kind, verdict), n in sorted(given.items())},
            "leftToPeople": dict(people), "secondsToSettle": round(seconds, 1),
            "doubled": sum(count - 1 for count in sandbox.deliveries.values()),
            "lost": scale.items - len(sandbox.deliveries),
        }  # fmt: skip
    print(json.dumps(figures))
    if where := os.environ.get("DOUBTS_FIGURES"):
        with open(where, "a") as file:  # noqa: ASYNC230 - a line at the end of it
            file.write(json.dumps(figures) + "\n")
    assert {EvidenceKind(kind) for kind, _ in given} <= case.kinds
    assert seconds < SETTLED_SECONDS
    if case.kinds and EvidenceKind.RECEIPT not in case.kinds:
        # Only what cost its worker again and again is not repeated to find out.
        allowed = scale.kills // 100 if case.kinds == KEY else 0
        assert people.total() <= allowed, people


SIX_KILLS = [
    pytest.param("sqlite", 300, id="300-sqlite"),
    pytest.param("postgres", 300, id="300-postgres"),
    pytest.param("sqlite", 3_000, id="3000-sqlite-storm", marks=pytest.mark.storm),
    pytest.param("postgres", 3_000, id="3000-postgres-storm", marks=pytest.mark.storm),
]


@pytest.mark.parametrize(("database", "items"), SIX_KILLS, indirect=["database"])
async def test_a_launch_ends_by_itself_after_six_kills_over_a_gateway_that_resets_connections(
    database: str, tmp_path: Path, items: int
) -> None:
    """It once stayed in progress for good, with 11 of 3,000 in doubt."""
    async with opened(database, tmp_path, CASES[0]) as scene:
        await scene.begin(items)
        scene.sandbox.change_faults({"latencyMs": LATENCY_MS, "dropRate": 0.02, "loseRate": 0.02})
        executioner = Executioner(
            scene.outrider.settings, LIMITS, scene.log, random.Random(SEED), workers=1
        )
        await executioner.kill(6, idle_seconds=10.0, most_seconds=0.01)
        last = DoomedWorker(scene.outrider.settings, LIMITS, scene.log)
        assert scene.run_id is not None
        await launches.until_terminal(scene.outrider, scene.run_id, seconds=REST_SECONDS)
        last.kill()
        await last.gone()
        assert not await scene.unsettled()
        given = await scene.verdicts()
        [(worn_out,)] = await scene.rows(WORN_OUT)
        print(f"{items:,} items: {given.total()} doubts settled by key, {worn_out} worn out")
        assert set(given) <= {(EvidenceKind.KEY.value, "ask_again")}
        await _prove(scene, Scale("six kills", 6, items, 1), given)


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
async def test_a_message_worn_out_by_kills_settles_once_they_are_over(
    database: str, tmp_path: Path
) -> None:
    """Its call has cost as many workers as one may, and asking once more is free."""
    async with opened(database, tmp_path, CASES[0]) as scene:
        scene.sandbox.change_faults({"latencyMs": 60_000})
        given = Submission("i-0", TARGET, {"to": "+447700900123", "message": "Hello"})
        await scene.outrider.submissions.submit(DEFAULT_SCOPE, given)
        for number in range(1 + CALL_REPEATS_MAX):
            worker = DoomedWorker(scene.outrider.settings, LIMITS, scene.log)
            await eventually(lambda seen=number: scene.sandbox.requests > seen)  # type: ignore[misc]
            worker.kill()
            await worker.gone()
        scene.sandbox.change_faults({"latencyMs": 0})
        calm = replace(LIMITS, doubt_worn_out_seconds=0.5)
        last = DoomedWorker(scene.outrider.settings, calm, scene.log)
        async with asyncio.timeout(REST_SECONDS):
            while True:
                intent, attempts = await scene.outrider.submissions.intent(DEFAULT_SCOPE, "i-0")
                if intent.status == "ACCEPTED":
                    break
                await asyncio.sleep(LOOK_SECONDS)
        last.kill()
        await last.gone()
        assert await scene.verdicts() == {(EvidenceKind.KEY.value, "ask_again"): 1}
    assert [each.repeat for each in attempts] == list(range(2 + CALL_REPEATS_MAX))
    assert scene.sandbox.deliveries.total() == 1


async def _prove(scene: Scene, scale: Scale, given: Counter[tuple[str, str]]) -> None:
    """One delivery of each, no more and no less; and the certificate says by what it is known."""
    rows = await scene.rows(KEYS)
    references = {bytes(key).hex() for key, _ in rows}
    assert {str(status) for _, status in rows} <= {"sent", "called", "posted"}
    assert len(references) == scale.items
    assert dict(scene.sandbox.deliveries) == dict.fromkeys(references, 1)
    if scene.run_id is None:
        return
    certificate = await scene.outrider.certifier.certify(DEFAULT_SCOPE, scene.run_id)
    assert certificate.holds, certificate.criteria
    listed = Counter({(each.kind.value, each.verdict): each.items for each in certificate.settled})
    # The last verdict on each item: one that was in doubt twice is listed once.
    everything = await scene.verdicts()
    assert set(listed) <= set(everything)
    assert listed.total() <= everything.total()
    assert bool(listed) == bool(everything)
    assert given.total() <= everything.total()
