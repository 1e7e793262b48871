"""Postgres databases that tests use one after the other: with all tables, and without rows.

To empty one takes a fraction of the time of making and dropping one. Whatever a test did besides to
its database is noticed by its seal, and nobody gets that database again.
"""

from typing import Self

import asyncpg

from outrider.testing.postgres import create_database, drop_database

TERMINATE_MILLISECONDS = 5_000
SMALL_BYTES = 64 * 1024

# Everything that the migrations made but rows, as one number.
SEAL = """
SELECT md5(string_agg(line, chr(10) ORDER BY line)) FROM (
    SELECT nspname::text AS line FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT concat_ws(' ', relname, relkind, relacl, reloptions, relrowsecurity)
        FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', attrelid::regclass, attname, atttypid, attnotnull, attacl,
            pg_get_expr(adbin, adrelid))
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0
    UNION ALL SELECT concat_ws(' ', pg_get_indexdef(indexrelid), indisvalid)
        FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', conrelid::regclass, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', pg_get_triggerdef(oid), tgenabled)
        FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT concat_ws(' ', proname, prosrc, proacl)
        FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', viewname, definition)
        FROM pg_views WHERE schemaname = 'public'
    UNION ALL SELECT extname::text FROM pg_extension
    UNION ALL SELECT array_to_string(setconfig, ' ')
        FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
        WHERE datname = current_database()
) AS lines
"""
OTHERS = """
SELECT pg_terminate_backend(pid, $1) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
FILLED = """
SELECT oid::regclass::text AS name, pg_relation_size(oid) > $1 AS is_large FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
"""


class DatabasePool:
    """Copies of a migrated template, emptied after each use."""

    def __init__(self, server_url: str, template_url: str, kept: list[str], seal: str) -> None:
        self._server_url = server_url
        self._template_url = template_url
        self._kept = kept
        self._seal = seal
        self._free: list[str] = []

    @classmethod
    async def of(cls, server_url: str, template_url: str) -> Self:
        connection = await asyncpg.connect(template_url)
        try:
            # What a migration wrote stays as it is, and is part of the seal.
            kept = [each["name"] for each in await connection.fetch(FILLED, SMALL_BYTES)]
            return cls(server_url, template_url, kept, await _seal(connection, kept))
        finally:
            await connection.close()

    async def take(self) -> str:
        if self._free:
            return self._free.pop()
        return await create_database(self._server_url, self._template_url)

    async def give_back(self, url: str) -> None:
        try:
            is_as_new = await self._is_as_new(url)
        except asyncpg.PostgresError:
            # Whatever a test did to it, and be it that it is gone.
            is_as_new = False
        if is_as_new:
            self._free.append(url)
        else:
            await drop_database(self._server_url, url)

    async def _is_as_new(self, url: str) -> bool:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute("SET lock_timeout = 5000")
            await connection.fetch(OTHERS, TERMINATE_MILLISECONDS)
            await _empty(connection, self._kept)
            return await _seal(connection, self._kept) == self._seal
        finally:
            await connection.close()


async def _empty(connection: "asyncpg.Connection[asyncpg.Record]", kept: list[str]) -> None:
    """Neither triggers nor foreign keys are asked; of small tables new files would take longer."""
    steps = [
        f"TRUNCATE {each['name']} CASCADE" if each["is_large"] else f"DELETE FROM {each['name']}"
        for each in await connection.fetch(FILLED, SMALL_BYTES)
        if each["name"] not in kept
    ]
    async with connection.transaction():
        await connection.execute("SET LOCAL session_replication_role = replica")
        if steps:
            await connection.execute("; ".join(steps))
        await connection.execute("SELECT setval(seqrelid, seqstart, false) FROM pg_sequence")
    await connection.execute("SELECT pg_stat_reset()")


async def _seal(connection: "asyncpg.Connection[asyncpg.Record]", kept: list[str]) -> str:
    rows = [str(await connection.fetch(f"SELECT * FROM {name} ORDER BY 1")) for name in kept]
    return "\n".join([await connection.fetchval(SEAL), *rows])
