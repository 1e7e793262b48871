"""The SQLite store's own scripts on a database in memory, with a process's view of it.

A transaction may be refused before it begins, and its acknowledgement may be lost after it
committed. A process may die before it, or after it and before it hears of it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from pathlib import Path

import apsw

from outrider.domain.errors import StoreUnavailable
from outrider.domain.restored_database import DatabasePlace
from outrider.ports.store import Announced, Result, Statement, Transaction
from outrider.stores.sqlite.connections import translated
from outrider.stores.sqlite.functions import add_functions
from outrider.stores.sqlite.migrating import migrate
from outrider.stores.sqlite.store import MIGRATIONS, SqliteStore
from outrider.testing.simulation.process import Process

STATEMENTS_KEPT = 1_000
"""More than there are: preparing one takes longer than running it."""
FASTEST_SECONDS, SLOWEST_SECONDS = 0.000_2, 0.004


class StoreFaults:
    """How often the database fails, while it does."""

    def __init__(self, refused_rate: float = 0.0, unacknowledged_rate: float = 0.0) -> None:
        self.refused_rate = refused_rate
        self.unacknowledged_rate = unacknowledged_rate

    def heal(self) -> None:
        self.refused_rate = self.unacknowledged_rate = 0.0


class MemoryStore(SqliteStore):
    def __init__(
        self,
        database: apsw.Connection,
        process: Process,
        faults: StoreFaults,
        committed: Callable[[], None] = lambda: None,
    ) -> None:
        """`committed` is called after every transaction that may have written."""
        self._database = database
        self._committed = committed
        self._process = process
        self._faults = faults
        self._path = Path("memory")
        self._time_columns = {}

    async def write(self, transaction: Transaction[Result]) -> Result:
        return await self._done("BEGIN IMMEDIATE", transaction, self._committed)

    async def read(self, transaction: Transaction[Result]) -> Result:
        return await self._done("BEGIN", transaction)

    def at_once(self, transaction: Transaction[Result]) -> Result:
        """For who looks at the world from outside."""
        return self._run(self._database, "BEGIN", transaction)

    async def _done(
        self,
        begin: str,
        transaction: Transaction[Result],
        committed: Callable[[], None] = lambda: None,
    ) -> Result:
        await self._process.take(FASTEST_SECONDS, SLOWEST_SECONDS)
        if self._process.random.random() < self._faults.refused_rate:
            raise StoreUnavailable("the database is away")
        try:
            result = self._run(self._database, begin, transaction)
        except apsw.Error as error:
            raise translated(error, self._path) from error
        committed()
        await self._process.take(FASTEST_SECONDS, SLOWEST_SECONDS)
        if self._process.random.random() < self._faults.unacknowledged_rate:
            raise StoreUnavailable("the connection was lost")
        return result

    def _run(
        self,
        connection: apsw.Connection,
        begin: str,  # noqa: ARG002
        transaction: Transaction[Result],
        first: Statement | None = None,
    ) -> Result:
        """Within the one transaction of the world."""
        cursor = connection.cursor()
        cursor.execute("SAVEPOINT one")
        try:
            try:
                statement = first or next(transaction)
                while True:
                    statement = transaction.send(self._rows(cursor, statement))
            except StopIteration as done:
                result: Result = done.value
        except BaseException:
            transaction.close()
            cursor.execute("ROLLBACK TO one")
            cursor.execute("RELEASE one")
            raise
        cursor.execute("RELEASE one")
        return result

    def make_tables(self) -> None:
        migrate(self._database, MIGRATIONS)

    def give_way(self, while_true: Callable[[], bool]) -> None:
        """It has no queue in which a large window could be ahead of a single message."""

    async def migrate(self) -> Sequence[str]:
        return ()

    async def verify_schema(self) -> None:
        return None

    async def place(self) -> DatabasePlace:
        return DatabasePlace("memory")

    async def ping(self) -> None:
        await self._process.reach()

    async def announcements(self, of: Announced) -> AsyncIterator[None]:  # noqa: ARG002
        """None are made: readers poll, as those of another machine would have to."""
        for _ in ():
            yield None

    async def close(self) -> None:
        return None


@cache
def _database() -> apsw.Connection:
    """One for all worlds of this process, with all tables and no rows: its statements are prepared
    once."""
    database = apsw.Connection(":memory:", statementcachesize=STATEMENTS_KEPT)
    add_functions(database)
    MemoryStore(database, Process("migrator", 0), StoreFaults()).make_tables()
    database.execute("PRAGMA foreign_keys = on")
    database.create_scalar_function("strftime", lambda *_given: _clock[-1]())
    return database


_clock: list[Callable[[], str]] = []
"""Of the latest world."""


def new_database(clock: Callable[[], str]) -> apsw.Connection:
    """Empty. All that a world writes is one transaction, which the next one undoes."""
    database = _database()
    if database.in_transaction:
        database.execute("ROLLBACK")
    _clock[:] = [clock]
    database.execute("BEGIN")
    return database
