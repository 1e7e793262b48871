"""Migrating Postgres beside running servers: neither turns the other away.

Consecutive migrations share a transaction, which yields to servers and is tried again. An index on
a table that may be large is built outside transactions, while the table is in use.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

import asyncpg

from outrider.domain.errors import StoreUnavailable
from outrider.limits.stores import (
    POSTGRES_CONNECT_SECONDS,
    POSTGRES_MIGRATION_LOCK_MS,
    POSTGRES_MIGRATION_REST_SECONDS,
    POSTGRES_MIGRATION_TRIES,
    POSTGRES_MIGRATION_TURNS,
)
from outrider.stores.migrations import Applied, Migration, pending

MIGRATION_LOCK = 0x6F757472
"""An advisory lock, so that two processes never migrate at the same time."""

IN_THE_WAY = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)

_HAS_COLUMN = """SELECT count(*) = 1 FROM pg_attribute
    WHERE attrelid = to_regclass('schema_migrations') AND attname = 'is_breaking'"""
_IS_UNFINISHED = """SELECT count(*) = 1 FROM pg_index
    WHERE indexrelid = to_regclass($1) AND NOT indisvalid"""

Connection: TypeAlias = (
    "asyncpg.pool.PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]"
)


async def migrate(url: str, available: Sequence[Migration]) -> Sequence[str]:
    """Apply what is missing. No statement has a time limit: a large table takes its time."""
    connection = await asyncpg.connect(
        url,
        timeout=POSTGRES_CONNECT_SECONDS,
        server_settings={"application_name": "outrider migrate", "synchronous_commit": "on"},
    )
    try:
        await _take_turn(connection)
        missing = pending(available, await applied(connection))
        for group in _groups(missing):
            index = group[0].concurrent_index
            if index is None:
                await _patiently(connection, group)
            else:
                await _build(connection, group[0], index)
        return [migration.name for migration in missing]
    finally:
        connection.terminate()


async def applied(connection: Connection) -> Mapping[str, Applied]:
    if await connection.fetchval("SELECT to_regclass('schema_migrations')") is None:
        return {}
    # Databases of before have no such column: nothing runs beside what is newer than that.
    breaking = "is_breaking" if await connection.fetchval(_HAS_COLUMN) else "true"
    rows = await connection.fetch(f"SELECT name, sha256, {breaking} FROM schema_migrations")
    return {name: Applied(sha256, is_breaking) for name, sha256, is_breaking in rows}


async def _take_turn(connection: Connection) -> None:
    """Until the connection ends. It asks again and again instead of waiting in the database: an
    index that is built concurrently waits for all statements, and so for one that waits."""
    for _ in range(POSTGRES_MIGRATION_TURNS):
        if await connection.fetchval("SELECT pg_try_advisory_lock($1)", MIGRATION_LOCK):
            return
        await asyncio.sleep(POSTGRES_MIGRATION_REST_SECONDS)
    minutes = POSTGRES_MIGRATION_TURNS * POSTGRES_MIGRATION_REST_SECONDS / 60
    raise StoreUnavailable(
        f"another process has been migrating this database for {minutes:.0f} minutes",
        hint="wait for it; pg_stat_activity shows it as `outrider migrate`",
    )


def _groups(missing: Sequence[Migration]) -> Iterator[list[Migration]]:
    for is_alone, group in groupby(missing, lambda migration: migration.concurrent_index):
        migrations = list(group)
        if is_alone is None:
            yield migrations
        else:
            yield from ([each] for each in migrations)


async def _patiently(connection: Connection, group: Sequence[Migration]) -> None:
    """In one transaction, which gives way to whoever holds a table that it needs."""
    for _ in range(POSTGRES_MIGRATION_TRIES - 1):
        try:
            return await _together(connection, group)
        except IN_THE_WAY:
            await asyncio.sleep(POSTGRES_MIGRATION_REST_SECONDS)
    return await _together(connection, group)


async def _together(connection: Connection, group: Sequence[Migration]) -> None:
    async with connection.transaction():
        await connection.execute(f"SET LOCAL lock_timeout = {POSTGRES_MIGRATION_LOCK_MS}")
        await _prepare(connection)
        for migration in group:
            await connection.execute(migration.sql)
            await _record(connection, migration)


async def _prepare(connection: Connection) -> None:
    await connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_migrations (name text PRIMARY KEY, sha256 text NOT NULL,"
        " applied_at timestamptz NOT NULL, is_breaking boolean NOT NULL DEFAULT false)"
    )
    if not await connection.fetchval(_HAS_COLUMN):
        await connection.execute(
            "ALTER TABLE schema_migrations ADD COLUMN is_breaking boolean NOT NULL DEFAULT false"
        )


async def _build(connection: Connection, migration: Migration, index: str) -> None:
    """An attempt that failed leaves an index that is maintained and never used."""
    await _patiently(connection, [])
    if await connection.fetchval(_IS_UNFINISHED, index):
        await connection.execute(f"DROP INDEX CONCURRENTLY {index}")
    await connection.execute(migration.sql)
    await _record(connection, migration)


async def _record(connection: Connection, migration: Migration) -> None:
    await connection.execute(
        "INSERT INTO schema_migrations (name, sha256, applied_at, is_breaking)"
        " VALUES ($1, $2, now(), $3)",
        migration.name,
        migration.sha256,
        migration.is_breaking,
    )
