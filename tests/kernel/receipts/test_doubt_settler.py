"""Doubts settle themselves: by a key, by a look-up at the provider, and else by people only."""

import asyncio
from pathlib import Path

import pytest

from outrider.domain.evidence import EvidenceKind, Settles
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import target
from tests.support.doubt_scene import (
    EAGER,
    PATIENCE_SECONDS,
    ended,
    repeated,
    scene,
    submit,
    verdicts,
)
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working

FAMILIES = [
    ("twilio_sms", EvidenceKind.CONTENT),
    ("twilio_voice", EvidenceKind.CONTENT),
    ("smtp", EvidenceKind.LOOK_UP),
    ("sms", EvidenceKind.LOOK_UP),
    ("push", EvidenceKind.LOOK_UP),
    # As if their keys were forgotten: they are asked for their lists.
    ("resend", EvidenceKind.CONTENT),
    ("mastodon", EvidenceKind.CONTENT),
]


@pytest.mark.parametrize(("family", "kind"), FAMILIES)
async def test_a_message_that_arrived_is_found_and_one_that_did_not_is_called_again(
    database: str, tmp_path: Path, family: str, kind: EvidenceKind
) -> None:
    faults = Faults(drop_rate=0.4, lose_rate=0.3, look_up_fail_rate=0.3, seed=5)
    async with (
        Sandbox(faults) as sandbox,
        scene(
            database,
            tmp_path,
            sandbox,
            family,
            maxAttempts=50,
            settings={"remembers_references": "never"},
        ) as outrider,  # fmt: skip
    ):
        await submit(outrider, family, 12)
        async with working(outrider):
            found = await ended(outrider, 12)
        given = await verdicts(outrider)
    assert {each.status for each in found} == {"ACCEPTED"}
    assert sorted(sandbox.deliveries.values()) == [1] * 12
    assert given[kind.value, "sent"] >= 1
    assert given[kind.value, "resubmit"] >= 1
    assert {each for each, _ in given} == {kind.value}
    assert sandbox.look_ups > 0


@pytest.mark.parametrize("family", ["resend", "mastodon"])
async def test_a_remembered_key_is_repeated_for_as_long_as_it_takes(
    database: str, tmp_path: Path, family: str
) -> None:
    """One attempt is all there is, and every call of it is cut off until the provider is well."""
    async with (
        Sandbox(Faults(drop_rate=1)) as sandbox,
        scene(database, tmp_path, sandbox, family, policy="one_shot") as outrider,
    ):
        await submit(outrider, family, 3)
        async with working(outrider):
            await repeated(outrider, 4)
            sandbox.change_faults({"dropRate": 0})
            found = await ended(outrider, 3)
    assert {each.item_status for each in found} <= {"sent", "posted"}
    assert sorted(sandbox.deliveries.values()) == [1] * 3


async def test_without_evidence_a_doubt_is_a_persons_and_says_since_when(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(drop_rate=1)) as sandbox:
        mail = target("t", "smtp", sandbox.smtp_url)
        async with opened(database, tmp_path, mail, limits=EAGER) as outrider, working(outrider):
            await submit(outrider, "smtp", 1)
            rows: list[tuple[object, ...]] = []
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not rows:
                    async with raw_sql(database) as raw:
                        rows = await raw.run(
                            "SELECT settles, since = doubted_at, next_check_at FROM doubt_checks"
                            " WHERE settles IS NOT NULL"
                        )
                    await asyncio.sleep(0.02)
    assert [(row[0], bool(row[1]), row[2]) for row in rows] == [(Settles.PERSON.value, True, None)]
