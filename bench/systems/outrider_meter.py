"""Outrider's resource usage by consumer: its process, its renderer, Postgres, its log and disk.

Readings are taken before and after a piece of work; the difference per message is its cost.
"""

import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import psutil

from outrider.ports.store import Result, Transaction
from outrider.stores.postgres.store import PostgresStore
from processes import cpu_seconds

Costs = dict[str, float]
"""Per message; a name says its unit."""

_STATS_LINE = re.compile(r"(\S+)\s+(\d+) \([^)]*\)\s+(\d+) \([^)]*\)\s+(\d+) \([^)]*\)\s+\d+ \(")
"""Kind of page, records, their bytes, bytes of whole pages, all bytes."""

POSITION = "SELECT lsn::text, (lsn - '0/0')::bigint FROM pg_current_wal_insert_lsn() AS lsn"
SIZES = """
SELECT relname::text, pg_relation_size(oid) FROM pg_class
 WHERE relkind IN ('r', 'i') AND relnamespace = 'public'::regnamespace
"""


class CountingStore(PostgresStore):
    """Counts whole scripts and the statements in them, without BEGIN and COMMIT."""

    transactions = 0
    statements = 0

    async def write(self, transaction: Transaction[Result]) -> Result:
        return await super().write(self._counted(transaction))

    async def read(self, transaction: Transaction[Result]) -> Result:
        return await super().read(self._counted(transaction))

    def _counted(self, script: Transaction[Result]) -> Transaction[Result]:
        self.transactions += 1
        try:
            statement = next(script)
            while True:
                self.statements += 1
                statement = script.send((yield statement))
        except StopIteration as done:
            result: Result = done.value
            return result
        finally:
            script.close()


@dataclass(frozen=True)
class Look:
    at: float
    own_seconds: float
    render_seconds: float
    database_seconds: float
    log_position: str
    log_bytes: int
    transactions: int
    statements: int


class Meter:
    """Uses a separate connection, so that its own queries are not counted."""

    def __init__(
        self,
        connection: "asyncpg.Connection[asyncpg.Record]",
        store: CountingStore,
        postmaster: int,
    ) -> None:
        self._connection = connection
        self._store = store
        self._postmaster = postmaster

    async def look(self) -> Look:
        found = await self._connection.fetchrow(POSITION)
        assert found is not None
        renderers = psutil.Process().children(recursive=True)
        return Look(
            time.perf_counter(),
            time.process_time(),
            sum(cpu_seconds(renderer.pid) for renderer in renderers),
            cpu_seconds(self._postmaster),
            found[0],
            found[1],
            self._store.transactions,
            self._store.statements,
        )

    async def sizes(self) -> dict[str, int]:
        """Bytes of every table and index."""
        return dict(map(tuple, await self._connection.fetch(SIZES)))

    async def costs(self, before: Look, after: Look, count: int) -> Costs:
        pages = await self._whole_pages(before.log_position, after.log_position)
        postgres = after.database_seconds - before.database_seconds
        return {
            "ownCpuMicroseconds": _micro(after.own_seconds - before.own_seconds, count),
            "renderCpuMicroseconds": _micro(after.render_seconds - before.render_seconds, count),
            "postgresCpuMicroseconds": _micro(postgres, count),
            "logBytes": round((after.log_bytes - before.log_bytes) / count, 1),
            "wholePageBytes": round(sum(pages.values()) / count, 1),
            "indexWholePageBytes": round(pages.get("Btree", 0) / count, 1),
            "transactions": round((after.transactions - before.transactions) / count, 4),
            "statements": round((after.statements - before.statements) / count, 4),
            "wallMicroseconds": _micro(after.at - before.at, count),
        }

    async def _whole_pages(self, begin: str, end: str) -> dict[str, int]:
        """Their bytes in that piece of the log, by kind of page, as Postgres's own tool counts."""
        folder = await self._connection.fetchval("SHOW data_directory")
        # Unflushed parts of the log cannot be read.
        await self._connection.execute("SELECT pg_switch_wal()")
        tool = Path(psutil.Process(self._postmaster).exe()).with_name("pg_waldump")
        told = subprocess.run(  # noqa: ASYNC221 - nothing else happens meanwhile
            [str(tool), "--path", f"{folder}/pg_wal", "--start", begin, "--end", end, "--stats"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return whole_pages(told.stdout)


def whole_pages(table: str) -> dict[str, int]:
    """From the table that `pg_waldump --stats` prints."""
    found = (_STATS_LINE.match(line) for line in table.splitlines())
    return {line[1]: int(line[4]) for line in found if line}


def growth(before: dict[str, int], after: dict[str, int], count: int) -> dict[str, float]:
    """Bytes per message by table and index; those that hardly grew are left out."""
    grown = {name: (size - before.get(name, 0)) / count for name, size in after.items()}
    return {name: round(size, 1) for name, size in sorted(grown.items()) if size >= 1}


def _micro(seconds: float, count: int) -> float:
    return round(seconds / count * 1e6, 1)
