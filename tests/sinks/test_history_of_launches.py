"""A history beside real launches: written by the workers, complete after kills."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.bus_queues import HISTORY
from outrider.kernel.runs.history_verifier import Agreement
from outrider.testing.launches import target
from outrider.testing.postgres import create_database, drop_database
from tests.support.eventually import eventually
from tests.support.histories import in_postgres
from tests.support.noop_launches import NOOP, noop_launch
from tests.support.whole_runs import opened, work_until_terminal, working

KILLS = 12
RUNS = 40


async def until_written(outrider: Outrider) -> None:
    async def is_written() -> bool:
        sinks = {each.name: each for each in await outrider.bus_keeper.sinks()}
        return sinks[HISTORY].waiting == 0

    await eventually(is_written, seconds=60)


async def agreements(outrider: Outrider) -> set[Agreement]:
    return {each.agreement async for each in outrider.history_verifier.compare()}


@pytest.mark.parametrize("kind", ["duckdb", "postgresql"])
async def test_workers_write_the_history_of_what_they_do(
    database: str, tmp_path: Path, postgres_url: str, kind: str
) -> None:
    to = await create_database(postgres_url) if kind == "postgresql" else ""
    url = in_postgres(to) if to else f"duckdb:///{tmp_path}/history.duckdb"
    async with opened(database, tmp_path, target(NOOP, "noop", "noop:"), history=url) as outrider:
        await outrider.bus_keeper.register()
        run_id = await noop_launch(outrider, 20)
        await work_until_terminal(outrider, run_id)
        async with working(outrider):
            await until_written(outrider)
        assert await agreements(outrider) == {Agreement.SAME}
    if to:
        await drop_database(postgres_url, to)


def backfilled(environment: dict[str, str], folder: Path, seconds: float) -> None:
    """By a process of its own, which is killed after so long."""
    child = subprocess.Popen(
        [sys.executable, "-m", "outrider", "history", "backfill", "--json"],
        env=environment, cwd=folder, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.send_signal(signal.SIGKILL)
        child.wait()


@pytest.mark.storm
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_storm_a_backfill_killed_many_times_leaves_each_event_once(
    database: str, tmp_path: Path
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    url = f"duckdb:///{tmp_path}/history.duckdb"
    noop = target(NOOP, "noop", "noop:")
    async with opened(database, tmp_path, noop) as outrider:
        for _ in range(RUNS):
            await work_until_terminal(outrider, await noop_launch(outrider, 5))
    environment = {**os.environ, "OUTRIDER_DATABASE_URL": database, "OUTRIDER_HISTORY": url}
    for _ in range(KILLS):
        await asyncio.to_thread(backfilled, environment, tmp_path, chance.uniform(0.5, 3.0))
    async with opened(database, tmp_path, noop, history=url) as outrider:
        await outrider.history_backfiller.backfill(lambda _: None)
        assert await agreements(outrider) == {Agreement.SAME}
