"""What it costs to claim a job, in pages and steps of the database: the same however many wait."""

import json
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from outrider.domain.states import Channel
from outrider.stores.postgres import store as postgres
from outrider.stores.sqlite import store as sqlite
from outrider.stores.sqlite.functions import add_functions
from outrider.stores.statements import to_positional
from outrider.testing.launches import launch, message, people, target
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened

FEW, MANY = (10, 10), (300, 100)
"""Groups, one for each tenant and target that waits; and jobs in each of them."""
LATER = "2099-01-01T00:00:00.000000Z"
GIVEN: dict[str, dict[str, Any]] = {
    "claim_jobs": {
        "queue_group": "group-1", "now": LATER, "most": 8, "worker_id": "w",
        "lease_expires_at": LATER,
    },
    "claim_lanes": {
        "mode": "realtime", "targets": None, "closed": "[]", "now": LATER, "most": 8,
        "worker_id": "w", "lease_expires_at": LATER,
    },
    "next_lanes_due": {"targets": None, "closed": "[]"},
    "queue_groups": {"after": "", "most": 3},
}  # fmt: skip
MOST_TIMES = 3.0
"""An index of many rows may be a page or two deeper; there are three hundred times as many rows."""

COPIED = (
    "tenant_id, workspace_id, run_id, job_type, submission_target, asset_id, contract_id,"
    " first_position, last_position, item_count, max_attempts, run_at, created_at, updated_at, mode"
)
IDS = {
    "postgresql": "('01a00000-0000-7000-8000-' || lpad(n::text, 12, '0'))::uuid",
    "sqlite": "'01a00000-0000-7000-8000-' || substr('000000000000' || n, -12)",
}
NUMBERS = {
    "postgresql": "generate_series({first}, {last}) AS numbered (n)",
    "sqlite": "(WITH RECURSIVE c (n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM c"
    " WHERE n < {last}) SELECT n FROM c) AS numbered",
}


async def wait(database: str, first: int, groups: int, jobs: int) -> None:
    """Jobs of a campaign in so many groups, and as many lanes as there are groups."""
    scheme = database.partition(":")[0]
    numbers = NUMBERS[scheme].format(first=first, last=first + groups * jobs - 1)
    lanes = NUMBERS[scheme].format(first=first, last=first + groups - 1)
    id = IDS[scheme]
    async with raw_sql(database) as raw:
        await raw.run(
            f"INSERT INTO job_queue (id, queue_group, {COPIED})"
            f" SELECT {id}, 'group-' || (n % {groups}), {COPIED} FROM {numbers}"
            " CROSS JOIN (SELECT * FROM job_queue WHERE run_id IS NOT NULL ORDER BY id LIMIT 1) j"
        )
        await raw.run(
            "INSERT INTO job_queue (id, tenant_id, workspace_id, job_type, submission_target, lane,"
            " item_count, max_attempts, run_at, created_at, updated_at, mode)"
            f" SELECT {id.replace('7000', '7001')}, tenant_id, workspace_id, 'lane',"
            f" 'target-' || n, 0, 0, 3, run_at, created_at, updated_at, 'realtime' FROM {lanes}"
            " CROSS JOIN (SELECT * FROM job_queue WHERE run_id IS NOT NULL ORDER BY id LIMIT 1) j"
        )
        await raw.run("ANALYZE")


async def costs(database: str) -> dict[str, int]:
    if database.startswith("sqlite"):
        return {name: _steps(database, name) for name in GIVEN}
    connection = await asyncpg.connect(database, server_settings=postgres.PLANS_BY_KEY)
    try:
        return {name: await _pages(connection, name) for name in GIVEN}
    finally:
        await connection.close()


def _steps(database: str, name: str) -> int:
    """Instructions of SQLite's virtual machine, in hundreds."""
    connection = apsw.Connection(database.removeprefix("sqlite:///"))
    add_functions(connection)
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    connection.execute("BEGIN IMMEDIATE")
    connection.set_progress_handler(count, 100)
    list(connection.execute(sqlite.STATEMENTS[name].sql, GIVEN[name]))
    connection.set_progress_handler(None)
    connection.execute("ROLLBACK")
    connection.close()
    return taken


async def _pages(connection: "asyncpg.Connection[asyncpg.Record]", name: str) -> int:
    sql, parameters = to_positional(postgres.STATEMENTS[name].sql)
    given = ", ".join(_literal(GIVEN[name][each]) for each in parameters)
    await connection.execute(f"PREPARE asked AS {sql}")
    transaction = connection.transaction()
    await transaction.start()
    explained = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE asked({given})"
    )
    await transaction.rollback()
    await connection.execute("DEALLOCATE asked")
    plan = json.loads(explained)[0]["Plan"]
    pages: int = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    return pages


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"'{value}'"


async def test_claiming_costs_the_same_however_many_tenants_and_jobs_wait(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, target("noop", "noop", "noop:")) as outrider:
        await launch(outrider, [message(Channel.SMS, "noop")], people(1))
    await wait(database, 1, *FEW)
    few = await costs(database)
    await wait(database, 1_000, *MANY)
    many = await costs(database)
    assert {name: cost for name, cost in many.items() if cost > MOST_TIMES * few[name] + 1} == {}
