"""Workers started for some targets or for one mode take those jobs and lanes, and no others."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outrider.testing.launches import target
from tests.support.deployment import deployed, phone
from tests.support.eventually import observed_for
from tests.support.witness_gateway import WitnessGateway

QUICK, BULK = "sms.quick", "sms.bulk"
PEOPLE = 20
UNTOUCHED_SECONDS = 1.0


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[WitnessGateway]:
    async with WitnessGateway(tmp_path, "gateway") as started:
        yield started


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("--mode", "realtime"), ("--mode", "batch")),
        (("--targets", QUICK), ("--targets", BULK)),
        (("--targets", f"{QUICK},{BULK}", "--mode", "realtime"), ("--mode", "batch")),
    ],
    ids=["mode", "targets", "both"],
)
async def test_a_worker_takes_only_what_it_is_dedicated_to(
    gateway: WitnessGateway,
    database: str,
    tmp_path: Path,
    first: tuple[str, ...],
    second: tuple[str, ...],
) -> None:
    """A1: `work --targets/--mode`, for campaigns and for single messages."""
    targets = [
        target(QUICK, "sms", f"{gateway.url}/quick", mode="realtime"),
        target(BULK, "sms", f"{gateway.url}/bulk", mode="batch"),
    ]
    async with deployed(tmp_path, database, targets, workers_of_server=0) as deployment:
        bulk = await deployment.launch(BULK, PEOPLE)
        await deployment.submit("bulk", BULK, phone(60_000_000))
        await deployment.start_worker(*first)
        quick = await deployment.launch(QUICK, PEOPLE, first=PEOPLE)
        await deployment.submit("quick", QUICK, phone(60_000_001))
        run = await deployment.until_run_ended(quick.run_id)
        assert run["accounting"]["sent"] == PEOPLE
        assert (await deployment.until_intent("quick", has_ended))["status"] == "ACCEPTED"
        await observed_for(UNTOUCHED_SECONDS)
        assert {request.path.split("/")[1] for request in gateway.requests()} == {"quick"}
        await deployment.start_worker(*second)
        run = await deployment.until_run_ended(bulk.run_id)
        assert run["accounting"]["sent"] == PEOPLE
        assert (await deployment.until_intent("bulk", has_ended))["status"] == "ACCEPTED"
    assert not gateway.accepted_twice()


def has_ended(intent: dict[str, Any]) -> bool:
    return bool(intent["status"] != "PENDING")
