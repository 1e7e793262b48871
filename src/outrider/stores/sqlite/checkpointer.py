"""The checkpointer: moves the log's pages into the database file, beside the writer.

By default SQLite does it inside the commit that fills the log, which then waits for some thousand
pages to reach the disk, and every other transaction waits behind it. Here another thread copies
most of them, and has them reach the disk, while the writer continues; the writer copies only the
rest: a fully copied log restarts from its beginning.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import apsw
import structlog

from outrider.domain.errors import StoreError
from outrider.limits.stores import (
    SQLITE_CHECKPOINT_PAGES,
    SQLITE_CHECKPOINT_PASSES,
    SQLITE_CHECKPOINT_REST_PAGES,
)

log = structlog.get_logger()

OPEN_FILES = Path("/proc/self/fd")


class Checkpointer:
    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="outrider-sqlite-checkpointer")
        self._connection: apsw.Connection | None = None
        self._is_copying = False
        self._is_copied = False
        self._pages = 0
        self._begin_at = SQLITE_CHECKPOINT_PAGES

    def watch(self, writer: apsw.Connection) -> None:
        """From now on the log is copied here, not in this connection's commits."""
        writer.set_wal_hook(self._committed)

    def close(self) -> None:
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    def _committed(self, writer: apsw.Connection, _database: str, pages: int) -> int:
        """In the writer's thread, after each commit: `pages` are in the log by now. The commit is
        durable, so no failure here may be reported to its writer."""
        self._pages = pages
        try:
            self._look(writer, pages)
        except (apsw.Error, RuntimeError) as error:
            log.warning("checkpoint_not_made", error=str(error))
        return apsw.SQLITE_OK

    def _look(self, writer: apsw.Connection, pages: int) -> None:
        if self._is_copied:
            self._is_copied = False
            # It keeps growing while a reader still needs its end, or the disk is full.
            self._begin_at = pages + SQLITE_CHECKPOINT_PAGES
            _copy(writer)
        elif pages < SQLITE_CHECKPOINT_PAGES:
            self._begin_at = SQLITE_CHECKPOINT_PAGES
        elif pages >= self._begin_at and not self._is_copying:
            self._is_copying = True
            self._thread.submit(self._copy_most)

    def _copy_most(self) -> None:
        try:
            if self._connection is None:
                self._connection = self._connect()
            for _ in range(SQLITE_CHECKPOINT_PASSES):
                copied = _copy(self._connection)
                # SQLite does this only with the last page of the log, and so in the writer.
                _flush(self._connection.filename)
                if self._pages - copied <= SQLITE_CHECKPOINT_REST_PAGES:
                    break
        except (apsw.Error, StoreError) as error:
            log.warning("checkpoint_not_made", error=str(error))
        finally:
            self._is_copied, self._is_copying = True, False


def _copy(connection: apsw.Connection) -> int:
    """How many pages of the log are in the file afterwards; waits for no reader and no writer."""
    try:
        return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[1]
    except apsw.BusyError:
        # Another process is checkpointing.
        return 0


def _flush(path: str) -> None:
    """Wait until what was copied is on disk, through a handle that SQLite has open: closing one of
    our own would drop all locks that this process has on the file. Where the system does not list
    handles, the writer waits instead."""
    with suppress(OSError):
        for handle in os.listdir(OPEN_FILES):
            with suppress(OSError):
                if os.readlink(OPEN_FILES / handle) == path:
                    os.fdatasync(int(handle))
                    return
