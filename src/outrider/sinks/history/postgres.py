"""The history in a Postgres database, in a schema of its own; version 15 or later, for MERGE."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import asyncpg

from outrider.domain.errors import HistoryRefused, HistoryUnavailable
from outrider.domain.history_urls import HistoryUrl
from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent
from outrider.limits.history import HISTORY_LOGIN_SECONDS, HISTORY_STATEMENT_SECONDS
from outrider.ports.history import EventKey, HistoryEvent, HistorySnapshot
from outrider.ports.secrets import SecretStore, own_secret
from outrider.sinks.history.tables import (
    STATEMENTS,
    event_of,
    staged,
    tables_as,
)
from outrider.stores.statements import to_positional

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

SCHEMA = "outrider_history"
PASSING = (
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.TransactionRollbackError,
    asyncpg.LockNotAvailableError,
    asyncpg.InterfaceError,
    OSError,
    TimeoutError,
)
"""What another attempt may not meet again. A wrong password is among it: somebody corrects it."""


class PostgresHistory:
    def __init__(self, url: HistoryUrl, secrets: SecretStore) -> None:
        self._url = url
        self._secrets = secrets
        self._schema = url.options.get("schema", SCHEMA)
        self._connection: Connection | None = None
        self._has_tables = False
        # A command may read while the relay of the same process writes.
        self._one_at_a_time = asyncio.Lock()

    async def reach(self) -> None:
        async with self._connected() as connection:
            await connection.execute("SELECT 1")

    async def set_up(self) -> None:
        async with self._connected() as connection:
            await self._make_tables(connection)

    async def merge(
        self, events: Sequence[HistoryEvent], snapshots: Sequence[HistorySnapshot]
    ) -> None:
        rows = staged(events, snapshots)
        if not rows:
            return
        async with self._connected() as connection:
            if not self._has_tables:
                await self._make_tables(connection)
            async with connection.transaction():
                await connection.execute(STATEMENTS["take_turn"])
                for each in rows:
                    await connection.copy_records_to_table(
                        each.table, records=each.rows, columns=list(each.columns)
                    )
                    await connection.execute(each.merge)
                    await connection.execute(each.clear)

    async def counts(self, runs: Sequence[RunId]) -> Mapping[RunId, int]:
        rows = await self._ask("counts", first=min(runs), last=max(runs))
        return {RunId(row[0]): row[1] for row in rows}

    async def events_after(self, after: EventKey, last: RunId, most: int) -> Sequence[RunEvent]:
        rows = await self._ask("events_after", **after._asdict(), last=last, most=most)
        return [event_of(row) for row in rows]

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _ask(self, name: str, **parameters: object) -> Sequence[Any]:
        sql, order = to_positional(STATEMENTS[name])
        async with self._connected() as connection:
            return await connection.fetch(sql, *(parameters[each] for each in order))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator["Connection"]:
        """A connection that has failed once is not used again."""
        async with self._one_at_a_time:
            try:
                if self._connection is None or self._connection.is_closed():
                    self._connection = await self._connect()
                yield self._connection
            except PASSING as error:
                self._drop_connection()
                why = str(error) or type(error).__name__
                raise HistoryUnavailable(f"the history's Postgres failed: {why}") from error
            except asyncpg.PostgresError as error:
                self._drop_connection()
                raise HistoryRefused(f"the history's Postgres: {error}") from error

    async def _connect(self) -> "Connection":
        url = self._url
        password = url.secrets.get("password")
        sslmode, host = url.options.get("sslmode"), url.options.get("host", url.host)
        dsn = "postgresql://" if sslmode is None else f"postgresql://?sslmode={sslmode}"
        if "sslrootcert" in url.options:
            dsn += f"{'&' if '?' in dsn else '?'}sslrootcert={url.options['sslrootcert']}"
        return await asyncpg.connect(
            dsn,
            host=host,
            port=url.port,
            user=url.user,
            database=url.path[0],
            password=None if password is None else own_secret(self._secrets, password),
            timeout=HISTORY_LOGIN_SECONDS,
            command_timeout=HISTORY_STATEMENT_SECONDS,
            server_settings={
                "search_path": self._schema,
                "lock_timeout": f"{HISTORY_STATEMENT_SECONDS}s",
                "application_name": "outrider history",
            },
        )

    async def _make_tables(self, connection: "Connection") -> None:
        """Nothing is made where the tables are there: a writer needs no right to make any."""
        if await connection.fetchval("SELECT to_regclass('history_writer')") is None:
            async with connection.transaction():
                # Two processes that begin together: the second finds the tables.
                await connection.execute(
                    "SELECT pg_advisory_xact_lock(hashtext('outrider history'))"
                )
                quoted = self._schema.replace('"', '""')
                await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{quoted}"')
                for statement in tables_as("plain"):
                    await connection.execute(statement)
        self._has_tables = True

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
