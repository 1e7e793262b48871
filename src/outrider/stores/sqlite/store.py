"""The SQLite store: one writer thread, a few readers, WAL, and an fsync with every commit.

A transaction's script runs whole inside its thread, so a lock is never held across an event loop.
"""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw
import msgspec

from outrider.domain.errors import StoreUnavailable
from outrider.domain.restored_database import DatabasePlace
from outrider.limits.stores import (
    SQLITE_BUSY_SECONDS,
    SQLITE_LEAST_BUSY_MS,
    SQLITE_LOOK_SECONDS,
    SQLITE_READERS,
    SQLITE_SHORT_ITEMS,
)
from outrider.ports.store import Announced, Result, Rows, Statement, Transaction
from outrider.stores import migrations
from outrider.stores.compiler import Dialect
from outrider.stores.sqlite.checkpointer import Checkpointer
from outrider.stores.sqlite.connections import connect, translated
from outrider.stores.sqlite.migrating import applied, migrate
from outrider.stores.sqlite.values import time_to_text
from outrider.stores.sqlite.writer_thread import WriterThread
from outrider.stores.statements import KERNEL_STATEMENTS, NamedSql, load_statements

STATEMENTS = load_statements(KERNEL_STATEMENTS, Dialect.SQLITE)
MIGRATIONS = migrations.load_migrations(Path(__file__).parent / "migrations")
OF_SINGLE_MESSAGES = {"insert_intents", "open_due"}
"""Many at once are still what large windows wait for: they must not wait for themselves."""

Answer = TypeVar("Answer")


def _to_sqlite(value: object) -> Any:
    return time_to_text(value) if isinstance(value, datetime) else value


def _column(cells: Sequence[object]) -> Sequence[object]:
    return list(map(_to_sqlite, cells)) if datetime in set(map(type, cells)) else cells


def _is_large(statement: Statement) -> bool:
    window = statement.window
    if window is None or statement.name in OF_SINGLE_MESSAGES:
        return False
    return len(next(iter(window.values()), ())) > SQLITE_SHORT_ITEMS


def _is_time(column: str) -> bool:
    return column.endswith("_at") or column == "scheduled_for"


class SqliteStore:
    scheme = "sqlite"

    def __init__(self, path: Path, *, busy_seconds: float = SQLITE_BUSY_SECONDS) -> None:
        self._path = path
        self._busy_ms = int(busy_seconds * 1000)
        self._writer = WriterThread()
        self._reader = ThreadPoolExecutor(
            SQLITE_READERS, thread_name_prefix="outrider-sqlite-reader"
        )
        self._connections: dict[int, apsw.Connection] = {}
        """By the thread that uses it."""
        self._checkpointer = Checkpointer(self._connect)
        self._time_columns: dict[str, tuple[int, ...]] = {}

    async def write(self, transaction: Transaction[Result]) -> Result:
        asked_at = time.monotonic()
        try:
            first = next(transaction)
        except StopIteration as done:
            asked_nothing: Result = done.value
            return asked_nothing
        return await self._in_writer(
            lambda db: self._run_in_turn(db, asked_at, transaction, first), large=_is_large(first)
        )

    async def read(self, transaction: Transaction[Result]) -> Result:
        return await self._in_reader(lambda db: self._run(db, "BEGIN", transaction))

    async def migrate(self) -> Sequence[str]:
        return await self._in_writer(lambda db: migrate(db, MIGRATIONS))

    async def verify_schema(self) -> None:
        await self._in_reader(lambda db: migrations.verify(MIGRATIONS, applied(db)))

    async def ping(self) -> None:
        """Whether the file exists, checked in a separate thread. Only the library may open it:
        closing another handle would drop all locks that this process has on it, and another process
        would think that it is alone."""
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        try:
            self._path.stat()
        except OSError as error:
            raise StoreUnavailable(
                f"SQLite cannot use {self._path}: {error.strerror}",
                hint="check that the file is a writable database and that the disk has space",
            ) from error

    async def place(self) -> DatabasePlace:
        """A file that was copied is another one. One that was overwritten has gone back in time."""
        found = await asyncio.to_thread(self._path.stat)
        return DatabasePlace(f"file {found.st_ino}")

    def stay_at(
        self, place: DatabasePlace, moved: Callable[[DatabasePlace], Transaction[object]]
    ) -> None:
        """Its connections are to one file, whatever becomes of its name."""

    def abandon(self) -> None:
        """A file answers or fails at once."""

    async def announcements(self, of: Announced) -> AsyncIterator[None]:
        """SQLite announces nothing, but lets a connection see cheaply that others committed.

        That only says that something changed, not what. Readers of campaign events poll often
        enough on their own.
        """
        if of is Announced.EVENTS:
            return
        watching = await self._in_reader(lambda _: self._connect())
        # It checks in the event loop itself, without blocking.
        watching.set_busy_timeout(0)
        try:
            seen = None
            while True:
                if seen != (version := _data_version(watching)):
                    seen = version
                    yield
                await asyncio.sleep(SQLITE_LOOK_SECONDS)
        except apsw.Error as error:
            raise translated(error, self._path) from error
        finally:
            watching.close()

    def give_way(self, while_true: Callable[[], bool]) -> None:
        """Asked in the writer's thread, which lets large windows wait for a moment."""
        self._writer.gives_way = while_true

    def between_writes(self, work: Callable[[], None]) -> None:
        """Run it in the writer's thread, while this process holds no lock that others wait for."""
        self._writer.submit(work).result()

    async def forget_removed(self) -> bool:
        """Rewrite the file without the remains of removed rows, and empty the log. Writers wait
        meanwhile. False: somebody else was reading or writing for too long."""
        try:
            return await self._in_writer(_rewrite)
        except StoreUnavailable:
            return False

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._writer.shutdown()
        self._reader.shutdown()
        self._checkpointer.close()
        while self._connections:
            _, connection = self._connections.popitem()
            connection.close()

    async def _in_writer(
        self, work: Callable[[apsw.Connection], Answer], *, large: bool = False
    ) -> Answer:
        writing = self._writer.submit(partial(self._with_connection, work), large=large)
        return await asyncio.wrap_future(writing)

    async def _in_reader(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        reading = partial(self._with_connection, work)
        return await asyncio.get_running_loop().run_in_executor(self._reader, reading)

    def _with_connection(self, work: Callable[[apsw.Connection], Answer]) -> Answer:
        """In the thread that owns the connection."""
        try:
            thread = threading.get_ident()
            connection = self._connections.get(thread)
            if connection is None:
                connection = self._connections[thread] = self._connect()
                if self._writer.is_current:
                    self._checkpointer.watch(connection)
            return work(connection)
        except apsw.Error as error:
            raise translated(error, self._path) from error

    def _connect(self) -> apsw.Connection:
        return connect(self._path, self._busy_ms)

    def _run_in_turn(
        self,
        connection: apsw.Connection,
        asked_at: float,
        transaction: Transaction[Result],
        first: Statement,
    ) -> Result:
        """A write that queued behind others of this process also waited for another process's lock:
        if that process is frozen, the whole queue fails as soon as the first write does."""
        left_ms = self._busy_ms - int((time.monotonic() - asked_at) * 1000)
        connection.set_busy_timeout(max(left_ms, SQLITE_LEAST_BUSY_MS))
        return self._run(connection, "BEGIN IMMEDIATE", transaction, first)

    def _run(
        self,
        connection: apsw.Connection,
        begin: str,
        transaction: Transaction[Result],
        first: Statement | None = None,
    ) -> Result:
        """The script; `first` is its first statement, if it was already requested."""
        cursor = connection.cursor()
        cursor.execute(begin)
        try:
            try:
                statement = first or next(transaction)
                while True:
                    statement = transaction.send(self._rows(cursor, statement))
            except StopIteration as done:
                result: Result = done.value
            cursor.execute("COMMIT")
        except BaseException:
            transaction.close()
            if connection.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        return result

    def _rows(self, cursor: apsw.Cursor, statement: Statement) -> Rows:
        named = STATEMENTS[statement.name]
        params = {name: _to_sqlite(value) for name, value in statement.params.items()}
        if statement.window is not None:
            columns = [_column(statement.window[name]) for name in named.window]
            items = list(zip(*columns, strict=True))
            params["window"] = msgspec.json.encode(items).decode()
        cursor.execute(named.sql, params)
        first = cursor.fetchone()
        if first is None:
            return []
        times = self._time_columns_of(named, cursor)
        rows = [first, *cursor.fetchall()]
        return [_with_times(row, times) for row in rows] if times else rows

    def _time_columns_of(self, named: NamedSql, cursor: apsw.Cursor) -> tuple[int, ...]:
        known = self._time_columns.get(named.name)
        if known is None:
            columns = [column[0] for column in cursor.get_description()]
            known = tuple(index for index, name in enumerate(columns) if _is_time(name))
            self._time_columns[named.name] = known
        return known


def _rewrite(connection: apsw.Connection) -> bool:
    connection.execute("VACUUM")
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        return False
    return True


def _data_version(connection: apsw.Connection) -> object:
    """Changes whenever another connection has committed; a few microseconds, and no file access."""
    return connection.pragma("data_version")


def _with_times(row: Sequence[Any], times: tuple[int, ...]) -> list[Any]:
    cells = list(row)
    for index in times:
        if cells[index] is not None:
            cells[index] = datetime.fromisoformat(cells[index])
    return cells
