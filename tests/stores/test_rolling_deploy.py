"""The next version beside this one on one database, with a run in flight, and back again.

The next version is this one with one migration more.
"""

import json
import shutil
from pathlib import Path

import aiohttp
import pytest

from outrider.gateways.sandbox import references_delivered
from tests.support.deployed_beside import TARGET, launched, request, scene, until_run
from tests.support.previous_release import ROOT, Server, command, serving

ADDED = "ALTER TABLE campaigns ADD COLUMN of_the_next_version text"
RECIPIENTS = 400
RATE_PER_SECOND = 4.0
"""The run is still in flight when the last server starts, which sends the rest at full speed."""


@pytest.fixture
def next_version(tmp_path: Path) -> Path:
    """Its sources, to be put on PYTHONPATH."""
    source = tmp_path / "next"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in source.glob("outrider/stores/*/migrations"):
        (folder / "9999_next.sql").write_text(ADDED)
    return source


async def is_ready(server: Server) -> bool:
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/readyz") as response:
        return response.status == 200


async def drained(server: Server) -> None:
    await server.stop()
    assert server.process.returncode == 0


@pytest.mark.empty_database
async def test_a_deploy_and_its_rollback_have_no_gap(
    database: str, tmp_path: Path, next_version: Path
) -> None:
    """A10: after one additive migration the old server was not ready, and old workers exited."""
    async with scene(tmp_path, database) as scenery:
        settings = scenery.settings
        paced = {TARGET: {"rate_per_second": RATE_PER_SECOND, "burst": 1}}
        slow = settings | {"OUTRIDER_TARGETS": json.dumps(paced)}
        await command(None, settings, "migrate")
        async with serving(None, slow, tmp_path, tmp_path / "this.log") as this:
            run_id = await launched(this, RECIPIENTS)
            await until_run(this, run_id, sent=1)
            assert "9999_next" in str(await command(next_version, settings, "migrate"))
            assert await is_ready(this)
            async with serving(next_version, slow, tmp_path, tmp_path / "next.log") as new:
                assert await is_ready(new)
                await drained(this)
                left = await until_run(new, run_id, sent=1)
                await until_run(new, run_id, sent=left["accounting"]["sent"] + 1)
                async with serving(None, settings, tmp_path, tmp_path / "back.log") as back:
                    assert await is_ready(back)
                    await drained(new)
                    await until_run(back, run_id, sent=RECIPIENTS)
                    await scenery.until_heard(run_id, "RunCompleted")
                    certificate = await request(back, "GET", f"/runs/{run_id}/certificate")
                    await drained(back)
        delivered = references_delivered(tmp_path / "received.ndjson")
    assert certificate["holds"], certificate
    assert len(delivered) == RECIPIENTS
    assert set(delivered.values()) == {1}, "nobody was sent to twice"
