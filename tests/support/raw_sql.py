"""A database as a stranger sees it: SQL without Outrider, for checking what the database refuses.

Statements are written in the common part of both dialects; `Raw` knows the few differences.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import apsw
import asyncpg

AsyncpgConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Refused(Exception):
    """The database refused the statement by a constraint or a trigger."""


class Raw(ABC):
    @abstractmethod
    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement in its own transaction; returns its rows, or raises Refused."""

    @abstractmethod
    def blob(self, content: bytes) -> str:
        """A literal of these bytes."""

    @abstractmethod
    async def tables(self) -> set[str]: ...

    async def complete_runs(self, campaign_id: str | None = None) -> None:
        """By hand, with the event that the database requires; its phase is not informed."""
        which = f" WHERE campaign_id = '{campaign_id}'" if campaign_id else ""
        await self.run(
            "INSERT INTO run_events (run_id, run_seq, type, emitter, logical_attempt,"
            " plan_version, idempotency_key, payload, occurred_at)"
            " SELECT id, last_seq + 1, 'RunCompleted', 'hand', 1, plan_version,"
            f" {self.blob(bytes(32))}, '{{}}', created_at FROM campaign_runs{which}"
        )
        await self.run(
            "UPDATE campaign_runs SET status = 'completed', finished_at = created_at,"
            f" last_seq = last_seq + 1, status_seq = last_seq + 1{which}"
        )

    async def value(self, sql: str) -> Any:
        ((found,),) = await self.run(sql)
        return found


class RawSqlite(Raw):
    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return list(self._connection.execute(sql))
        except apsw.ConstraintError as error:
            raise Refused(str(error)) from error

    def blob(self, content: bytes) -> str:
        return f"x'{content.hex()}'"

    async def tables(self) -> set[str]:
        rows = await self.run("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return {row[0] for row in rows}


class RawPostgres(Raw):
    def __init__(self, connection: AsyncpgConnection) -> None:
        self._connection = connection

    async def run(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row) for row in await self._connection.fetch(sql)]
        except asyncpg.IntegrityConstraintViolationError as error:
            raise Refused(str(error)) from error

    def blob(self, content: bytes) -> str:
        return f"'\\x{content.hex()}'::bytea"

    async def tables(self) -> set[str]:
        rows = await self.run("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {row[0] for row in rows}


def _sha256(*given: Any) -> bytes:
    (text,) = given
    return hashlib.sha256(text.encode()).digest()


@asynccontextmanager
async def raw_sql(database_url: str) -> AsyncIterator[Raw]:
    if database_url.startswith("sqlite"):
        connection = apsw.Connection(database_url.removeprefix("sqlite:///"))
        connection.set_busy_timeout(60_000)
        # Postgres has it.
        connection.create_scalar_function("sha256", _sha256, 1, deterministic=True)
        yield RawSqlite(connection)
        connection.close()
    else:
        server = await asyncpg.connect(database_url)
        try:
            yield RawPostgres(server)
        finally:
            await server.close()
