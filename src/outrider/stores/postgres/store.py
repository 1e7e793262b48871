"""The Postgres store: a pool of asyncpg connections, each script in one transaction.

Writes run at READ COMMITTED and take their row locks in one order (job, then run, then phase);
reads run on one REPEATABLE READ snapshot.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any, Literal, TypeAlias

import asyncpg
import msgspec

from outrider.domain.database_urls import without_password
from outrider.domain.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable
from outrider.domain.restored_database import DatabasePlace
from outrider.limits.stores import (
    POSTGRES_CONNECT_SECONDS,
    POSTGRES_IDLE_SECONDS,
    POSTGRES_PING_SECONDS,
    POSTGRES_POOL_CONNECTIONS,
    POSTGRES_STATEMENT_SECONDS,
)
from outrider.ports.store import Announced, Result, Rows, Statement, Transaction
from outrider.stores import migrations
from outrider.stores.compiler import Dialect
from outrider.stores.postgres import migrating
from outrider.stores.postgres.listener import Listener
from outrider.stores.postgres.pooler import refuse_shared_sessions
from outrider.stores.statements import KERNEL_STATEMENTS, load_statements, to_positional

HERE = Path(__file__).parent
STATEMENTS = load_statements(KERNEL_STATEMENTS, Dialect.POSTGRES)
MIGRATIONS = migrations.load_migrations(HERE / "migrations")

PLANS_BY_KEY = {"jit": "off", "plan_cache_mode": "force_generic_plan", "enable_seqscan": "off"}
"""Every statement of the kernel looks rows up by key. A cached plan from when a table was small
would scan the whole table for every window once it is large; a test checks all of them."""

_SERVER = "'server ' || (SELECT system_identifier FROM pg_control_system())"
_TIMELINE = """', timeline ' || CASE WHEN pg_is_in_recovery() THEN 'of a replica'
                                ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"""
_DATABASE = """', database ' || (SELECT oid FROM pg_database WHERE datname = current_database())"""
_POSITION = """CASE WHEN NOT pg_is_in_recovery()
                    THEN (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint END"""
PLACES = (
    f"SELECT {_SERVER} || {_TIMELINE} || {_DATABASE}, {_POSITION}",
    f"SELECT 'server' || {_TIMELINE} || {_DATABASE}, {_POSITION}",
    f"SELECT 'server' || {_DATABASE}, NULL",
)
"""A restored backup has another server or database, a promoted replica another timeline. Behind
them, how far the log is on disk: a position that a crash cannot take back. A hosted server may
refuse some of these functions: then less is known (docs/howto/backup-and-restore.md)."""

_NOT_TOLD = (
    asyncpg.InsufficientPrivilegeError, asyncpg.FeatureNotSupportedError,
    asyncpg.UndefinedFunctionError,
)  # fmt: skip

Isolation = Literal["read_committed", "repeatable_read"]
# Quoted, because the stubs are generic and the classes are not.
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Connection: TypeAlias = (
    "asyncpg.pool.PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]"
)

_COPIED = {
    name: (match[1], [column.strip() for column in match[2].split(",")])
    for name, named in STATEMENTS.items()
    if (match := re.fullmatch(r"COPY (\w+) \(([^)]*)\) FROM STDIN", named.written))
}
"""Statements that no query can match for speed: rows are copied into a table."""

_RAISED = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What the driver raises. InternalClientError is how it reports a session that the server ended
while idle, if the farewell has arrived but the end of the connection has not."""

_LOST = (
    OSError, TimeoutError, asyncpg.PostgresConnectionError, asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError, asyncpg.CannotConnectNowError,
    asyncpg.InsufficientResourcesError, asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError, asyncpg.InvalidCatalogNameError,
    asyncpg.InvalidAuthorizationSpecificationError, asyncpg.PostgresIOError,
    asyncpg.ReadOnlySQLTransactionError, asyncpg.LockNotAvailableError,
    asyncpg.IdleInTransactionSessionTimeoutError,
)  # fmt: skip

EVENT_ONCE = "run_events_run_id_idempotency_key_key"
"""Refuses an event that another transaction logged while this one waited for the run's row. Like a
serialization failure, it passes: whoever tries again finds the event in the log."""


class PostgresStore:
    scheme = "postgresql"

    def __init__(self, url: str, *, connections: int = POSTGRES_POOL_CONNECTIONS) -> None:
        self._url = url
        self._connections = connections
        self._pool: Pool | None = None
        self._opening = asyncio.Lock()
        self._listener = Listener(url)
        self._is_abandoned = False
        self._has_own_sessions = False
        """Known once, when a server or worker starts."""
        self._place: DatabasePlace | None = None
        self._when_moved: Callable[[DatabasePlace], Transaction[object]]

    async def write(self, transaction: Transaction[Result]) -> Result:
        return await self._run(transaction, "read_committed")

    async def read(self, transaction: Transaction[Result]) -> Result:
        return await self._run(transaction, "repeatable_read", readonly=True)

    async def migrate(self) -> Sequence[str]:
        try:
            await refuse_shared_sessions(self._url)
            return await migrating.migrate(self._url, MIGRATIONS)
        except _RAISED as error:
            raise _translated(error, self._url) from error

    async def verify_schema(self) -> None:
        if not self._has_own_sessions:
            try:
                await refuse_shared_sessions(self._url)
            except _RAISED as error:
                raise _translated(error, self._url) from error
            self._has_own_sessions = True
        async with self._transaction("repeatable_read", readonly=True) as connection:
            migrations.verify(MIGRATIONS, await migrating.applied(connection))

    async def ping(self) -> None:
        """On a separate connection: those of the pool may all be busy, or lost."""
        try:
            connection = await asyncpg.connect(self._url, timeout=POSTGRES_PING_SECONDS)
        except (asyncpg.CannotConnectNowError, asyncpg.OperatorInterventionError) as error:
            raise _translated(error, self._url) from error
        except asyncpg.PostgresError:
            # It refuses this connection, so it is running.
            return
        except (*_RAISED, TimeoutError) as error:
            raise _translated(error, self._url) from error
        connection.terminate()

    async def place(self) -> DatabasePlace:
        async with self._connected(None) as connection:
            return await _place(connection)

    def stay_at(
        self, place: DatabasePlace, moved: Callable[[DatabasePlace], Transaction[object]]
    ) -> None:
        self._place, self._when_moved = place, moved

    async def _look_where_it_is(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        """A replica may be promoted while workers are at work: they must not go on as if it knew
        what the old server knew."""
        stayed = self._place
        if stayed is None:
            return
        place = await _place(connection)
        if place.name == stayed.name and not place.is_behind(stayed.log_position):
            return
        script = self._when_moved(place)
        async with connection.transaction():
            await _played(connection, script, next(script))
        self._place = place

    async def announcements(self, of: Announced) -> AsyncIterator[None]:
        try:
            async for _ in self._listener.announcements(of):
                yield
        except _RAISED as error:
            raise _translated(error, self._url) from error

    def abandon(self) -> None:
        self._is_abandoned = True
        self._listener.close()
        if self._pool is not None:
            self._pool.terminate()

    def give_way(self, while_true: Callable[[], bool]) -> None:
        """Single messages have connections of their own: large windows do not hold them up."""

    async def forget_removed(self) -> bool:
        """The server does it: its autovacuum removes old versions of rows. What its files, replicas
        and backups keep beyond that is for its administrator (docs/howto/erasure.md)."""
        return True

    async def close(self) -> None:
        self._listener.close()
        if self._pool is not None:
            pool, self._pool = self._pool, None
            try:
                async with asyncio.timeout(POSTGRES_CONNECT_SECONDS):
                    await pool.close()
            except _LOST:
                pool.terminate()

    async def _run(
        self, transaction: Transaction[Result], isolation: Isolation, *, readonly: bool = False
    ) -> Result:
        try:
            first = next(transaction)
            # A single statement is a transaction already: it needs no BEGIN and COMMIT.
            around = None if first.alone else (isolation, readonly)
            async with self._connected(around) as connection:
                return await _played(connection, transaction, first)
        except StopIteration as done:
            result: Result = done.value
            return result
        finally:
            transaction.close()

    def _transaction(
        self, isolation: Isolation, *, readonly: bool = False
    ) -> AbstractAsyncContextManager[Connection]:
        return self._connected((isolation, readonly))

    @asynccontextmanager
    async def _connected(self, around: tuple[Isolation, bool] | None) -> AsyncIterator[Connection]:
        """A connection, in a transaction of that isolation level if one is given."""
        if self._is_abandoned:
            raise StoreUnavailable("Postgres did not answer in time")
        try:
            pool = self._pool or await self._open()
            # The pool's own time-out would create a task, which would delay single messages.
            async with asyncio.timeout(POSTGRES_STATEMENT_SECONDS):
                connection = await pool.acquire()
            try:
                if around is None:
                    yield connection
                    return
                isolation, readonly = around
                async with connection.transaction(isolation=isolation, readonly=readonly):
                    yield connection
            finally:
                await pool.release(connection)
        except _RAISED as error:
            raise _translated(error, self._url) from error

    async def _open(self) -> Pool:
        async with self._opening:
            if self._pool is None:
                self._pool = await asyncpg.create_pool(
                    self._url,
                    min_size=1,
                    max_size=self._connections,
                    timeout=POSTGRES_CONNECT_SECONDS,
                    command_timeout=POSTGRES_STATEMENT_SECONDS,
                    reset=_keep_as_it_is,
                    init=self._look_where_it_is,
                    server_settings={
                        "application_name": "outrider",
                        "synchronous_commit": "on",
                        # A process that froze inside a transaction must not keep others waiting.
                        "idle_in_transaction_session_timeout": f"{POSTGRES_IDLE_SECONDS}s",
                        **PLANS_BY_KEY,
                    },
                )
        return self._pool


async def _played(
    connection: Connection, transaction: Transaction[Result], first: Statement
) -> Result:
    statement = first
    try:
        while True:
            run = _copied if statement.name in _COPIED else _rows
            statement = transaction.send(await run(connection, statement))
            assert not first.alone, f"{first.name} was not alone: {statement.name} came after it"
    except StopIteration as done:
        result: Result = done.value
        return result


async def _copied(connection: Connection, statement: Statement) -> Rows:
    table, columns = _COPIED[statement.name]
    await connection.copy_records_to_table(
        table, records=_records(statement, columns), columns=columns
    )
    return ()


def _records(statement: Statement, columns: Sequence[str]) -> Iterator[tuple[object, ...]]:
    window = statement.window or {}
    cells = [
        window[column] if column in window else repeat(statement.params[column])
        for column in columns
    ]
    # A constant column has no end.
    return zip(*cells, strict=False)


async def _rows(connection: Connection, statement: Statement) -> Rows:
    sql, order = _positional(statement.name)
    given = dict(statement.params)
    if statement.window is not None:
        names = STATEMENTS[statement.name].window
        item = _item(names)
        items = [item(*row) for row in zip(*map(statement.window.__getitem__, names), strict=True)]
        given["window"] = msgspec.json.encode(items).decode()
    records: Sequence[Any] = await connection.fetch(sql, *(given[name] for name in order))
    return records


@lru_cache(maxsize=len(STATEMENTS))
def _positional(name: str) -> tuple[str, tuple[str, ...]]:
    return to_positional(STATEMENTS[name].sql)


@lru_cache(maxsize=len(STATEMENTS))
def _item(names: tuple[str, ...]) -> Callable[..., msgspec.Struct]:
    """A JSON object with these keys. None is omitted, and is null to Postgres."""
    fields = [(name, object, None) for name in names]
    return msgspec.defstruct("Item", fields, frozen=True, omit_defaults=True, gc=False)


async def _place(connection: Connection) -> DatabasePlace:
    """As much of it as the server tells this role."""
    *more, least = PLACES
    for query in more:
        with suppress(*_NOT_TOLD):
            return await _place_by(query, connection)
    return await _place_by(least, connection)


async def _place_by(query: str, connection: Connection) -> DatabasePlace:
    row = await connection.fetchrow(query)
    assert row is not None, "the query has one row"
    return DatabasePlace(row[0], row[1])


async def _keep_as_it_is(_connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """No script leaves state in a session, so nothing has to be reset."""


def _translated(error: BaseException, url: str) -> StoreError:
    message = without_password(str(error), url)
    if isinstance(error, asyncpg.UniqueViolationError) and error.constraint_name == EVENT_ONCE:
        return StoreUnavailable("another process logged the same event at the same moment")
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return StoreRefused(f"the database refused the statement: {message}")
    if isinstance(error, asyncpg.UndefinedTableError):
        return SchemaMismatch(message, hint="run `outrider migrate` first")
    if isinstance(error, _LOST):
        return StoreUnavailable(
            f"Postgres is unavailable: {message or type(error).__name__}",
            hint="check that it is running and that OUTRIDER_DATABASE_URL is correct",
        )
    return StoreError(f"Postgres: {message}")
