"""Kills at random over every family's simulator: what they put in doubt settles itself.

Nothing is doubled and nothing lost, and what a provider can be asked is settled within a minute of
its being reachable. `python -m tests.crash.doubt_storm` does it for as long as one likes.
"""

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.domain.evidence import EvidenceKind
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.retry import CALL_REPEATS_MAX
from outrider.gateways.directory import GATEWAY_TYPES
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing import launches
from tests.crash.doomed_workers import DoomedWorker, Executioner
from tests.crash.doubt_storm.cases import CASES, STORES
from tests.crash.doubt_storm.figures import PAGE, RESULTS, on_the_page, read_results, table
from tests.crash.doubt_storm.storm import LATENCY_MS, Scale, problems, storm
from tests.crash.settling_scene import (
    LIMITS,
    LOOK_SECONDS,
    REST_SECONDS,
    SEED,
    TARGET,
    Case,
    opened,
)
from tests.support.eventually import eventually

QUICK = Scale(3, 40, 1)
QUICKLY = [
    pytest.param(STORES[place % 2], case, id=f"{case}-{STORES[place % 2]}")
    for place, case in enumerate(CASES)
]
WORN_OUT = "SELECT count(DISTINCT outbox_id) FROM attempt_history WHERE repeat > 3"


@pytest.mark.parametrize(("database", "case"), QUICKLY, indirect=["database"])
async def test_whatever_kills_put_in_doubt_settles_itself(
    database: str, tmp_path: Path, case: Case
) -> None:
    figures = await storm(database, tmp_path, case, QUICK, SEED)
    print(figures)
    assert not problems(case, figures)
    assert (figures.doubled, figures.lost) == (0, 0)


def test_every_family_is_a_case_by_the_evidence_that_it_declares() -> None:
    """`noop` calls nobody."""
    assert {case.family for case in CASES} == GATEWAY_TYPES.keys() - {"noop"}
    for case in CASES:
        declared = GATEWAY_TYPES[case.family]
        evidence = declared.evidence
        has_key = declared.remembers is not None and declared.remembers.is_memory
        kinds = {EvidenceKind.KEY} if has_key else set()
        if evidence.look_up is not None:
            kinds.add(evidence.look_up.match.kind)
        if evidence.receipts is not None and not kinds:
            kinds.add(EvidenceKind.RECEIPT)
        # `sms`, `push` and `smtp` can prove what their target declares.
        assert case.kinds == kinds or evidence.declared_look_up, case


def test_the_page_has_the_results_that_were_recorded() -> None:
    """Run `python -m tests.crash.doubt_storm --page` to write them anew."""
    assert on_the_page(PAGE.read_text()) == table(read_results(RESULTS))


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
    async with opened(database, tmp_path, CASES[0], SEED) as scene:
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
        await scene.prove(items)


@pytest.mark.parametrize("database", ["sqlite", "postgres"], indirect=True)
async def test_a_message_worn_out_by_kills_settles_once_they_are_over(
    database: str, tmp_path: Path
) -> None:
    """Its call has cost as many workers as one may, and asking once more is free."""
    async with opened(database, tmp_path, CASES[0], SEED) as scene:
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
