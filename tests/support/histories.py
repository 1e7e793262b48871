"""Histories for tests: DuckDB and Postgres for real, Snowflake's SQL on fakesnow.

Each can be made so that its connection is lost at the nth statement, before or after it was
executed: that is what a killed writer leaves behind.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from outrider.domain.history_urls import SnowflakeTables, history_url
from outrider.ports.history import History
from outrider.secrets.store import LocalSecrets
from outrider.sinks.history.duckdb import DuckdbHistory
from outrider.sinks.history.postgres import PostgresHistory
from outrider.sinks.history.snowflake import SnowflakeHistory
from outrider.testing.postgres import create_database, drop_database

KINDS = ("duckdb", "postgresql", "snowflake")


class Lost(ConnectionResetError):
    """The line is lost; whether the last statement arrived is unknown."""


class Fuse:
    """Blows at the nth statement of a connection. `after`: once that statement was executed."""

    def __init__(self, at: int, *, after: bool) -> None:
        self._left = at
        self._after = after
        self.blown = False

    def blows(self, *, executed: bool) -> bool:
        if executed is self._after:
            self._left -= 1
            if self._left < 0:
                self.blown = True
        return self.blown


class FusedDuckdb:
    def __init__(self, connection: Any, fuse: Fuse) -> None:
        self._connection = connection
        self._fuse = fuse

    def execute(self, *given: Any) -> Any:
        self._check(executed=False)
        found = self._connection.execute(*given)
        self._check(executed=True)
        return found

    def close(self) -> None:
        self._connection.close()

    def _check(self, *, executed: bool) -> None:
        import duckdb

        if self._fuse.blows(executed=executed):
            self._connection.close()
            raise duckdb.IOException("the process was killed here")


class FusedSnowflake:
    """Its cursors too; a lost session is rolled back."""

    def __init__(self, connection: Any, fuse: Fuse) -> None:
        self._connection = connection
        self._fuse = fuse
        self._cursor: Any = None

    def cursor(self) -> "FusedSnowflake":
        self._cursor = self._connection.cursor()
        return self

    def execute(self, *given: Any) -> None:
        self._check(executed=False)
        self._cursor.execute(*given)
        self._check(executed=True)

    def fetchall(self) -> Any:
        return self._cursor.fetchall()

    def close(self) -> None:
        if self._cursor is None:
            self._connection.close()
        else:
            self._cursor.close()
            self._cursor = None

    def _check(self, *, executed: bool) -> None:
        if self._fuse.blows(executed=executed):
            if not self._connection.is_closed():
                self._connection.rollback()
            raise Lost


class Account:
    """fakesnow lets DuckDB's errors through, and a DuckDB writer is refused where a Snowflake one
    waits: here that is the connector's error for a lock that was not granted in time."""

    def __init__(self, fake: Any) -> None:
        self._fake = fake

    def connect(self) -> Any:
        return Waiting(self._fake.connect(database="outrider", schema="history"))


class Waiting:
    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def cursor(self) -> "WaitingCursor":
        return WaitingCursor(self._connection.cursor())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class WaitingCursor:
    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, sql: str, parameters: Any = None) -> None:
        import duckdb
        from snowflake.connector.errors import OperationalError

        try:
            self._cursor.execute(sql, parameters)
        except duckdb.TransactionException as error:
            raise OperationalError(msg=str(error), errno=625) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class FusedPostgres:
    def __init__(self, connection: Any, fuse: Fuse) -> None:
        self._connection = connection
        self._fuse = fuse

    async def execute(self, sql: str) -> None:
        await self._call(self._connection.execute, sql)

    async def copy_records_to_table(self, *given: Any, **named: Any) -> None:
        await self._call(self._connection.copy_records_to_table, *given, **named)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        await self.execute("BEGIN")
        yield
        await self.execute("COMMIT")

    async def _call(self, work: Callable[..., Any], *given: Any, **named: Any) -> None:
        if not self._fuse.blows(executed=False):
            await work(*given, **named)
        if self._fuse.blows(executed=True):
            self._connection.terminate()
            raise Lost

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class HistoryPlace:
    """Where a history is kept; any number of writers can be opened on it."""

    def __init__(self, kind: str, url: str, account: "Account | None" = None) -> None:
        self.kind = kind
        self.url = url
        self._account = account
        self._opened: list[History] = []

    def open(self, fuse: Fuse | None = None) -> History:
        made = self._made(fuse)
        self._opened.append(made)
        return made

    async def close(self) -> None:
        for history in self._opened:
            await history.close()

    def _made(self, fuse: Fuse | None) -> History:
        match self.kind:
            case "duckdb":
                return self._duckdb(fuse)
            case "postgresql":
                return self._postgres(fuse)
            case _:
                return self._snowflake(fuse)

    def _duckdb(self, fuse: Fuse | None) -> History:
        import duckdb

        def connect(file: str) -> Any:
            connection = duckdb.connect(file)
            return connection if fuse is None else FusedDuckdb(connection, fuse)

        return DuckdbHistory(Path(history_url(self.url).path[0]), connect=connect)

    def _postgres(self, fuse: Fuse | None) -> History:
        class Fused(PostgresHistory):
            async def _connect(self) -> Any:
                connection = await super()._connect()
                return connection if fuse is None else FusedPostgres(connection, fuse)

        return Fused(history_url(self.url), LocalSecrets())

    def _snowflake(self, fuse: Fuse | None) -> History:
        account = self._account
        assert account is not None, "it was made with one"

        def connect() -> Any:
            connection = account.connect()
            return connection if fuse is None else FusedSnowflake(connection, fuse)

        return SnowflakeHistory(connect, SnowflakeTables.AUTO)


@asynccontextmanager
async def place_of(
    kind: str, folder: Path, postgres_url: Callable[[], str]
) -> AsyncIterator[HistoryPlace]:
    """A place for a history of this kind, with nothing in it yet."""
    match kind:
        case "duckdb":
            place = HistoryPlace(kind, f"duckdb:///{folder}/history.duckdb")
            yield place
            await place.close()
        case "postgresql":
            server = postgres_url()
            database = await create_database(server)
            place = HistoryPlace(kind, in_postgres(database))
            yield place
            await place.close()
            await drop_database(server, database)
        case _:
            with fake_account() as account:
                place = HistoryPlace(kind, "", account)
                yield place
                await place.close()


def in_postgres(database: str) -> str:
    """A database's URL as one of a history."""
    parts = urlsplit(database)
    options = [f"host={quote(value)}" for value in _host(parts.query)]
    user = f"{parts.username}@" if parts.username else ""
    host = f"{parts.hostname}{f':{parts.port}' if parts.port else ''}" if parts.hostname else ""
    return f"postgresql://{user}{host}{parts.path}?{'&'.join(options)}"


def _host(query: str) -> Iterator[str]:
    for piece in query.split("&"):
        name, _, value = piece.partition("=")
        if name == "host":
            yield value


@contextmanager
def fake_account() -> Iterator[Account]:
    """For its MERGE, fakesnow makes a table and notes its comment in another database, which
    DuckDB refuses inside a transaction: the note is left out."""
    import fakesnow.info_schema
    from fakesnow.instance import FakeSnow

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fakesnow.info_schema, "insert_table_comment_sql", lambda *_: "SELECT 1")
        account = FakeSnow()
        yield Account(account)
        account.duck_conn.close()
