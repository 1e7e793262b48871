"""A process that has SQLite's file open keeps its locks, whatever else it does with the file.

POSIX locks of a process on a file end when it closes any descriptor of that file. Another process
then thinks that it is alone, and takes the write-ahead log away under the first.
"""

import asyncio
import sys
from pathlib import Path

from outrider.kernel.transactions import jobs
from outrider.stores.sqlite.store import SqliteStore

OTHER_PROCESS = """
import sqlite3, sys
raw = sqlite3.connect(sys.argv[1], timeout=30)
with raw:
    raw.execute("CREATE TABLE another (id integer)")
raw.close()
"""


async def test_another_process_that_comes_and_goes_leaves_the_log_where_it_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "outrider.db"
    store = SqliteStore(path)
    await store.migrate()
    # More than one connection, and everything that looks after the file.
    await asyncio.gather(*(store.read(jobs.lock_holders()) for _ in range(8)))
    await store.ping()
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", OTHER_PROCESS, str(path))
    assert await other.wait() == 0
    assert path.with_name("outrider.db-wal").exists()
    assert await store.read(jobs.lock_holders()) == []
    await store.close()
