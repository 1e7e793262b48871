"""Opens connections to the file, and says what the library's errors mean."""

import os
import time
from contextlib import suppress
from pathlib import Path

import apsw

from outrider.domain.errors import SchemaMismatch, StoreError, StoreRefused, StoreUnavailable
from outrider.files.private_files import keep_others_out
from outrider.limits.stores import SQLITE_LOG_RETRY_SECONDS
from outrider.stores.sqlite.functions import add_functions

_LOST = (
    apsw.BusyError, apsw.LockedError, apsw.IOError, apsw.FullError, apsw.CantOpenError,
    apsw.ReadOnlyError, apsw.NotADBError, apsw.CorruptError, apsw.ProtocolError,
)  # fmt: skip


def connect(path: Path, busy_ms: int) -> apsw.Connection:
    """The database's file, created if it does not exist yet; readable by its owner only."""
    if not path.parent.is_dir():
        raise StoreUnavailable(
            f"the folder of the database does not exist: {path.parent}",
            hint="create it, or set OUTRIDER_DATABASE_URL to another location",
        )
    # It holds everything: a new file is readable by its owner only, and so are the files SQLite
    # puts beside it. An existing one is not opened: closing it would drop the locks of our
    # other connections.
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    for beside in ("", "-wal", "-shm"):
        keep_others_out(Path(f"{path}{beside}"))
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(busy_ms)
    _use_log(connection, busy_ms)
    for pragma in (
        "synchronous = full",
        "foreign_keys = on",
        "temp_store = memory",
        "cache_size = -32768",
        "wal_autocheckpoint = 0",
    ):
        connection.execute(f"PRAGMA {pragma}")
    # Plans depend on no value, so they are those that a test checks.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    add_functions(connection)
    return connection


def _use_log(connection: apsw.Connection, busy_ms: int) -> None:
    """If several processes do this to a new file at once, SQLite refuses all but one without
    waiting."""
    give_up_at = time.monotonic() + busy_ms / 1000
    while True:
        try:
            connection.execute("PRAGMA journal_mode = wal")
            return
        except apsw.BusyError:
            if time.monotonic() > give_up_at:
                raise
            time.sleep(SQLITE_LOG_RETRY_SECONDS)


def translated(error: apsw.Error, path: Path) -> StoreError:
    if isinstance(error, apsw.ConstraintError):
        return StoreRefused(f"the database refused the statement: {error}")
    if isinstance(error, _LOST):
        return StoreUnavailable(
            f"SQLite cannot use {path}: {error}",
            hint="check that the file is a writable database and that the disk has space",
        )
    if "no such table" in str(error):
        return SchemaMismatch(str(error), hint="run `outrider migrate` first")
    return StoreError(f"SQLite: {error}")
