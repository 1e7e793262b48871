"""A superuser's edits: SQL that no trigger refuses and nothing of Outrider sees."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.raw_sql import Raw, RawPostgres, raw_sql


@asynccontextmanager
async def tampering(database_url: str) -> AsyncIterator[Raw]:
    """No trigger fires in here; afterwards they are all as they were."""
    async with raw_sql(database_url) as raw:
        if isinstance(raw, RawPostgres):
            await raw.run("SET session_replication_role = replica")
            yield raw
            return
        triggers = await raw.run("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'")
        await raw.run("PRAGMA foreign_keys = off")
        for name, _ in triggers:
            await raw.run(f"DROP TRIGGER {name}")
        yield raw
        for _, sql in triggers:
            await raw.run(sql)
