"""A recipient id that comes twice in staged uploads: one rule, whoever imports what first."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.campaigns import LAUNCH, CampaignDefinition
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import AUDIENCE_IMPORT, Action
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.transactions.phase_controls import Control
from outrider.testing.launches import ACTOR, message, target
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import IMPATIENT, opened, work_until_terminal

ONE_BY_ONE = replace(IMPATIENT, jobs_in_parallel=1)
UPLOADS = [
    [("ada", "+447700900001"), ("ben", "+447700900002")],
    # Ada's first number stands, so the second one is free for Eve.
    [("ada", "+447700900003"), ("eve", "+447700900003")],
    [("ben", "+447700900004"), ("ada", "+447700900001"), ("kim", "+447700900004")],
]


@pytest.fixture
async def servers(
    database: str, other_folder: Path, tmp_path: Path
) -> AsyncIterator[tuple[Outrider, Outrider]]:
    """Two of them on one database, each with a worker that takes one job at a time."""
    async with Sandbox() as sandbox:
        sms = target("sms.all", "sms", sandbox.http_url)
        async with (
            opened(database, tmp_path, sms, limits=ONE_BY_ONE) as one,
            opened(database, other_folder, sms, limits=ONE_BY_ONE) as other,
        ):
            yield one, other


@pytest.fixture
def other_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    return folder


async def staged(servers: tuple[Outrider, Outrider], folder: Path) -> CampaignId:
    """Each upload goes to the other server."""
    definition = CampaignDefinition(
        "test", (AUDIENCE_IMPORT, LAUNCH), (message(Channel.SMS, "sms.all", body="Hi"),), 100
    )
    campaign_id, _ = await servers[0].deployer.create(DEFAULT_SCOPE, definition, [], ACTOR)
    for number, records in enumerate(UPLOADS):
        path = folder / f"upload-{number}.ndjson"
        lines = [json.dumps({"id": each, "phone": phone}) for each, phone in records]
        path.write_text("\n".join(lines))
        server = servers[number % 2]
        await server.audience_intake.add(DEFAULT_SCOPE, campaign_id, path, ACTOR)
    return campaign_id


async def begun(outrider: Outrider, campaign_id: CampaignId, phase: str) -> RunId:
    answer = await outrider.phase_controller.control(
        DEFAULT_SCOPE, campaign_id, phase, Control(Action.START, ACTOR)
    )
    assert answer.run_id is not None
    return answer.run_id


@pytest.mark.parametrize("order", ["ASC", "DESC"])
async def test_of_repeated_ids_the_first_row_counts_in_whichever_order_chunks_are_imported(
    servers: tuple[Outrider, Outrider], database: str, tmp_path: Path, order: str
) -> None:
    """X9: addresses are compared after that, and the numbers are the same on both stores."""
    campaign_id = await staged(servers, tmp_path)
    importing = await begun(servers[0], campaign_id, AUDIENCE_IMPORT)
    async with raw_sql(database) as raw:
        jobs = await raw.run(f"SELECT id FROM job_queue ORDER BY id {order}")
        for number, (job_id,) in enumerate(jobs):
            run_at = f"'2026-01-01T00:00:0{number}.000000Z'"
            await raw.run(f"UPDATE job_queue SET run_at = {run_at} WHERE id = '{job_id}'")
    imported = await work_until_terminal(servers[1], importing)
    assert imported == Accounting(intended=7, sent=4, skipped=3)
    sent = await work_until_terminal(servers[0], await begun(servers[0], campaign_id, LAUNCH))
    assert sent == Accounting(intended=4, sent=4)
    async with raw_sql(database) as raw:
        members = await raw.run(
            "SELECT recipient_id, phone FROM audience_members ORDER BY position"
        )
    assert members == [
        ("ada", "+447700900001"),
        ("ben", "+447700900002"),
        ("eve", "+447700900003"),
        ("kim", "+447700900004"),
    ]
