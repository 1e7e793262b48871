"""SIGTERM to a process that is cut off from Postgres: it ends within a named limit.

What it held is finished by whoever comes next.
"""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outrider.gateways.sandbox import Faults, Sandbox, references_delivered
from outrider.limits.kernel import Limits
from outrider.limits.stores import POSTGRES_PING_SECONDS
from outrider.testing.launches import target
from outrider.testing.postgres import create_database, drop_database
from tests.support.api_server import ApiServer, campaign, running_server
from tests.support.cut_line import CutLine, line_to
from tests.support.eventually import eventually
from tests.support.forked import ForkedProcess

LIMITS = Limits()
SLACK_SECONDS = 10.0
"""The machine may be busy with something else."""
ENDED_SECONDS = (
    LIMITS.cut_off_stop_seconds
    + LIMITS.cut_off_look_seconds
    + POSTGRES_PING_SECONDS
    + SLACK_SECONDS
)
PEOPLE = 400
ENOUGH = 20
GIVEN_UP = "stopped_without_database"


@pytest.fixture
async def line(postgres_url: str) -> AsyncIterator[CutLine]:
    database = await create_database(postgres_url)
    async with line_to(database) as cut_line:
        yield cut_line
    await drop_database(postgres_url, database)


@asynccontextmanager
async def at_work(
    folder: Path, line: CutLine, workers: int
) -> AsyncIterator[tuple[ApiServer, str, Path]]:
    """A server with a campaign under way, once somebody was sent to, if anybody works."""
    log = folder / "received.ndjson"
    async with Sandbox(Faults(latency_ms=50), log_path=log) as sandbox:
        gateway = target("noop", "sms", sandbox.http_url)
        async with running_server(
            folder, database=line.url, workers=workers, targets=(gateway,)
        ) as server:
            created = await server.post("/campaigns", campaign(PEOPLE, batchSize=20))
            campaign_id = created["campaignId"]
            await server.post(f"/campaigns/{campaign_id}/phases/launch/start")
            await eventually(
                lambda: not workers or sum(references_delivered(log).values()) >= ENOUGH,
                seconds=60,
            )
            yield server, campaign_id, log


async def until_sent(server: ApiServer, campaign_id: str) -> None:
    async with asyncio.timeout(120):
        while True:
            status = await server.get(f"/campaigns/{campaign_id}/status")
            if status["phases"]["launch"]["accounting"]["sent"] == PEOPLE:
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("workers", [0, 1])
async def test_a_server_that_is_cut_off_stops_within_its_limit(
    line: CutLine, tmp_path: Path, workers: int
) -> None:
    """It took 130 s without a worker and 240 s with one: as long as statements may take."""
    async with at_work(tmp_path, line, workers) as (server, campaign_id, log):
        line.cut()
        began = time.monotonic()
        async with asyncio.timeout(ENDED_SECONDS):
            await server.stop()
        took = time.monotonic() - began
        line.mend()
        # A server that holds nothing may be done before its limit.
        if workers:
            assert took >= LIMITS.cut_off_stop_seconds, "it had its chance"
            assert GIVEN_UP in server.log
            await server.start()
            await until_sent(server, campaign_id)
            assert set(references_delivered(log).values()) == {1}


async def test_a_server_whose_database_comes_back_in_time_finishes_what_it_holds(
    line: CutLine, tmp_path: Path
) -> None:
    """Within the limit nothing is given up."""
    async with at_work(tmp_path, line, 1) as (server, campaign_id, log):
        line.cut()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(LIMITS.cut_off_stop_seconds / 4)
        line.mend()
        assert await stopping == 0
        assert GIVEN_UP not in server.log
        assert "worker_cut_off" not in server.log
        await server.start()
        await until_sent(server, campaign_id)
        assert set(references_delivered(log).values()) == {1}


async def test_a_worker_that_is_cut_off_stops_within_its_limit(
    line: CutLine, tmp_path: Path
) -> None:
    """`outrider work` has no other limit: what it holds it finishes."""
    async with at_work(tmp_path, line, 0):
        environment = {
            **os.environ, "OUTRIDER_LOG": "json", "OUTRIDER_DATABASE_URL": line.url,
            "OUTRIDER_REGISTRY": str(tmp_path / "registry.json"),
        }  # fmt: skip
        worker = await ForkedProcess.start("outrider", ("work", "--json"), environment, tmp_path)
        async with asyncio.timeout(60):
            assert b"ready" in await worker.stdout.readline()
        line.cut()
        worker.send_signal(signal.SIGTERM)
        async with asyncio.timeout(ENDED_SECONDS):
            _, errors = await worker.communicate()
        assert GIVEN_UP.encode() in errors
        line.mend()
