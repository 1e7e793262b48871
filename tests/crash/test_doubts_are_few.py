"""What a killed worker leaves in doubt is what was on the wire, and hardly anything else.

The provider is a mail server, which recognises no references, so every abandoned call is in doubt.
(Once `remembers_references` exists, an `sms` target that says "never" is the same case.)
"""

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from outrider.testing.launches import target
from tests.support.deployment import Deployment, deployed
from tests.support.smtp_witness import SmtpWitness
from tests.support.witness_log import Request

TARGET = "mail.offers"
REPLY_SECONDS, SPREAD_SECONDS = 0.3, 0.5
UNRECORDED_SECONDS, UNRECORDED_SECONDS_MOST = 0.25, 1.0
"""A reply that left so shortly before the kill may have found nobody to write it down. On a busy
machine writing takes longer: as long as it was seen to take, up to a limit."""
SEED = 20_261_117


@dataclass(frozen=True)
class Scale:
    name: str
    kills: int
    recipients: int


QUICK = Scale("quick", 10, 600)
STORM = Scale("storm", 50, 5_000)
SCALES = [
    pytest.param(QUICK, id=QUICK.name),
    pytest.param(STORM, id=STORM.name, marks=pytest.mark.storm),
]


@pytest.fixture
async def mail(tmp_path: Path) -> AsyncIterator[SmtpWitness]:
    async with SmtpWitness(tmp_path) as started:
        yield started


@pytest.fixture
async def deployment(mail: SmtpWitness, database: str, tmp_path: Path) -> AsyncIterator[Deployment]:
    targets = [target(TARGET, "smtp", mail.url)]
    async with deployed(tmp_path, database, targets, workers_of_server=0) as made:
        yield made


@pytest.mark.parametrize("scale", SCALES)
async def test_doubts_never_outnumber_the_calls_that_were_cut(
    deployment: Deployment, mail: SmtpWitness, scale: Scale
) -> None:
    """X15: only what may have been called is in doubt; what was merely opened is called later."""
    slowly = {
        "end_of_data_seconds": REPLY_SECONDS,
        # Replies that come one by one, so that few are between the wire and the record at a kill.
        "end_of_data_spread_seconds": SPREAD_SECONDS,
    }
    await mail.script(**slowly)  # type: ignore[arg-type]
    moments = random.Random(SEED)
    campaign = await deployment.launch(TARGET, scale.recipients, channel="email", batch_size=50)
    killed_at = []
    for _ in range(scale.kills):
        before = len(mail.requests())
        worker = await deployment.start_worker()
        await mail.until_requests(before + 1)
        await asyncio.sleep(moments.uniform(0.0, REPLY_SECONDS + SPREAD_SECONDS))
        killed_at.append(await worker.kill())
    await mail.heal()
    await deployment.start_worker()
    run = await deployment.until_run(
        campaign.run_id, lambda run: run["accounting"]["waiting"] == 0, 60.0
    )

    doubts = await deployment.doubts()
    requests = mail.requests()
    within = recorded_within(requests, await deployment.items(campaign.run_id))
    cut = [request for request in requests if may_be_unrecorded(request, killed_at, within)]
    called = {request.to for request in requests}
    # For a call that got no further than MAIL, it is unknown whose it was.
    nameless = len([request for request in requests if not request.to])
    never_called = [doubt for doubt in doubts if doubt["address"] not in called]
    most = len(cut) + scale.kills
    assert len(doubts) <= most, (
        f"{len(doubts)} in doubt after {scale.kills} kills, of which {len(never_called)} were"
        f" never called; {len(cut)} calls were cut"
    )
    assert len(never_called) <= scale.kills + nameless
    # And the other way round: nobody was mailed twice, nobody is missing.
    assert not mail.accepted_twice()
    accounting = run["accounting"]
    assert accounting["inDoubt"] == len(doubts), run
    assert accounting["sent"] + accounting["inDoubt"] == scale.recipients, run


def recorded_within(requests: list[Request], items: list[dict[str, Any]]) -> float:
    """How long after a reply its record was written, at most, in this run."""
    ended = {request.to: request.ended_at for request in requests if request.was_accepted}
    took = [
        datetime.fromisoformat(item["updatedAt"]).timestamp() - at
        for item in items
        if item["status"] == "sent" and (at := ended.get(item["address"])) is not None
    ]
    return min(max(took, default=0.0), UNRECORDED_SECONDS_MOST)


def may_be_unrecorded(request: Request, killed_at: list[float], within: float) -> bool:
    """It began and nobody saw its end, or its end came together with a kill."""
    if request.ended_at is None:
        return True
    longest = max(within, UNRECORDED_SECONDS)
    return any(0 <= at - request.ended_at <= longest for at in killed_at)


async def test_without_a_kill_nothing_is_in_doubt(
    deployment: Deployment, mail: SmtpWitness
) -> None:
    """The harness of X15 itself."""
    await mail.script(end_of_data_spread_seconds=0.1)
    await deployment.start_worker()
    campaign = await deployment.launch(TARGET, 100, channel="email", batch_size=50)
    run = await deployment.until_run_ended(campaign.run_id)
    assert run["accounting"]["sent"] == len(mail.accepted()) == 100
    assert not await deployment.doubts()
