"""Databases as an earlier version left them: made by its migrations, filled with a real run's rows.

A test that takes `other_database` imports the fixture from here.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from outrider.bootstrap import make_store
from outrider.stores.postgres import store as postgres
from outrider.stores.sqlite import store as sqlite
from outrider.testing.postgres import create_database, drop_database
from tests.support.raw_sql import raw_sql

OLD_TABLES = (
    "tenants", "workspaces", "campaigns", "campaign_phases", "campaign_events",
    "audience_members", "assets", "contract_snapshots", "campaign_runs", "job_queue",
    "channel_outbox", "attempt_history", "suppressions", "campaign_audit_log",
)  # fmt: skip
"""Those that are still there, in an order in which each refers only to those before it."""


@pytest.fixture
async def other_database(
    database: str, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[str]:
    """Another empty database of the same kind."""
    if database.startswith("sqlite"):
        yield f"sqlite:///{tmp_path}/other.db"
        return
    server_url: str = request.getfixturevalue("postgres_url")
    url = await create_database(server_url)
    yield url
    await drop_database(server_url, url)


async def migrate_to(database: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only that many migrations, from the first."""
    module = sqlite if database.startswith("sqlite") else postgres
    with monkeypatch.context() as patched:
        patched.setattr(module, "MIGRATIONS", module.MIGRATIONS[:count])
        store = make_store(database)
        assert len(await store.migrate()) == count
        await store.close()


async def columns(database: str, table: str) -> list[str]:
    async with raw_sql(database) as raw:
        if database.startswith("sqlite"):
            return [row[1] for row in await raw.run(f"PRAGMA table_info({table})")]
        rows = await raw.run(
            "SELECT column_name FROM information_schema.columns"
            f" WHERE table_name = '{table}' ORDER BY ordinal_position"
        )
        return [row[0] for row in rows]


async def rows(database: str, table: str, named: list[str]) -> list[tuple[Any, ...]]:
    async with raw_sql(database) as raw:
        found = await raw.run(f"SELECT {', '.join(named)} FROM {table}")
    return sorted(found, key=repr)


async def copy_rows(source: str, target_url: str, tables: Sequence[str] = OLD_TABLES) -> None:
    for table in tables:
        named = await columns(target_url, table)
        found = await rows(source, table, named)
        if table == "job_queue" and "unended" not in named:
            found = [_ended_as_before(row, named) for row in found]
        if database_is_sqlite(target_url):
            connection = apsw.Connection(target_url.removeprefix("sqlite:///"))
            marks = ", ".join("?" * len(named))
            connection.executemany(
                f"INSERT OR IGNORE INTO {table} ({', '.join(named)}) VALUES ({marks})", found
            )
            connection.close()
        else:
            server = await asyncpg.connect(target_url)
            marks = ", ".join(f"${number}" for number in range(1, len(named) + 1))
            await server.executemany(
                f"INSERT INTO {table} ({', '.join(named)}) OVERRIDING SYSTEM VALUE"
                f" VALUES ({marks}) ON CONFLICT DO NOTHING",
                found,
            )
            if table == "contract_snapshots":
                # Its ids are the database's to give, and it does not look at those it was given.
                await server.execute(
                    "SELECT setval(pg_get_serial_sequence('contract_snapshots', 'id'), max(id))"
                    " FROM contract_snapshots"
                )
            await server.close()


def _ended_as_before(row: tuple[Any, ...], named: list[str]) -> tuple[Any, ...]:
    """Until 0010 a job that had ended was completed or dead, whatever its outcome was."""
    cells = dict(zip(named, row, strict=True))
    if cells["status"] == "failed" and cells["outcome"] is not None:
        cells["status"] = "completed"
    return tuple(cells.values())


def database_is_sqlite(database: str) -> bool:
    return database.startswith("sqlite")


async def schema(database: str) -> list[tuple[Any, ...]]:
    async with raw_sql(database) as raw:
        if database_is_sqlite(database):
            return await raw.run(
                "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2"
            )
        parts = [
            "SELECT table_name, column_name, ordinal_position, data_type, is_nullable,"
            " column_default FROM information_schema.columns WHERE table_schema = 'public'",
            "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid)"
            " FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
            "SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
            "SELECT proname, pg_get_functiondef(oid) FROM pg_proc"
            " WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'",
            "SELECT aggfnoid::text, aggtransfn::text, aggtranstype::regtype::text, agginitval"
            " FROM pg_aggregate JOIN pg_proc AS p ON p.oid = aggfnoid"
            " WHERE p.pronamespace = 'public'::regnamespace",
            "SELECT viewname, definition FROM pg_views WHERE schemaname = 'public'",
        ]
        return [row for part in parts for row in sorted(await raw.run(part), key=repr)]
