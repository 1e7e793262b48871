"""A process that has SQLite's file open keeps its locks, whatever else it does with the file.

POSIX locks of a process on a file end when it closes any descriptor of that file. Another process
then thinks that it is alone, and takes the write-ahead log away under the first.
"""

import asyncio
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from outrider.domain.errors import StoreUnavailable
from outrider.kernel.transactions import jobs, lost_jobs
from outrider.stores.sqlite.store import SqliteStore

OTHER_PROCESS = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], timeout=30)
with raw:
    raw.execute("CREATE TABLE another (id integer)")
raw.close()
"""


async def test_another_process_that_opens_and_closes_the_database_keeps_its_log(
    tmp_path: Path,
) -> None:
    path = tmp_path / "outrider.db"
    store = SqliteStore(path)
    await store.migrate()
    # More than one connection, and everything that looks after the file.
    await asyncio.gather(*(store.read(lost_jobs.lock_holders()) for _ in range(8)))
    await store.ping()
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", OTHER_PROCESS, str(path))
    assert await other.wait() == 0
    assert path.with_name("outrider.db-wal").exists()
    assert await store.read(lost_jobs.lock_holders()) == []
    await store.close()


FROZEN_WRITER = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)
raw.execute("BEGIN IMMEDIATE")
print("holds", flush=True)
sys.stdin.read()
"""
QUEUED = 12


async def test_a_queue_of_writes_has_an_answer_as_soon_as_the_first_has_where_a_writer_is_frozen(
    tmp_path: Path,
) -> None:
    """RM: each waited for the lock as if it had not waited before, one after the other."""
    store = SqliteStore(tmp_path / "outrider.db", busy_seconds=1.0)
    await store.migrate()
    frozen = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FROZEN_WRITER, str(tmp_path / "outrider.db"),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert frozen.stdout is not None
    assert await frozen.stdout.readline() == b"holds\n"
    began = time.monotonic()
    now = datetime.now(UTC)
    answers = await asyncio.gather(
        *(store.write(jobs.requeue(now)) for _ in range(QUEUED)), return_exceptions=True
    )
    took_seconds = time.monotonic() - began
    assert all(isinstance(each, StoreUnavailable) for each in answers), answers
    assert took_seconds < QUEUED / 2, "one after the other they would have taken that twice"
    frozen.kill()
    await frozen.wait()
    assert await store.write(jobs.requeue(now)) == 0, "it waits as patiently as ever again"
    await store.close()
