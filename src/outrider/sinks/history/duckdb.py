"""The history in a DuckDB file, for a team on one machine.

DuckDB lets one process have a file open. It is opened for each window and closed again, so that
others can read it in between; while somebody has it open, the history waits.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from outrider.domain.errors import (
    HistoryError,
    HistoryRefused,
    HistoryUnavailable,
    InvalidInput,
)
from outrider.limits.history import HISTORY_LOCK_LOOK_SECONDS, HISTORY_LOCK_SECONDS
from outrider.sinks.history.blocking import BlockingHistory
from outrider.sinks.history.tables import STATEMENTS, Staged, tables_as
from outrider.stores.statements import to_dollars


class DuckdbHistory(BlockingHistory):
    keeps_connection = False

    def __init__(self, file: Path, *, connect: Callable[[str], Any] | None = None) -> None:
        super().__init__()
        self._duckdb = _driver()
        self._file = file
        self._open = connect or self._duckdb.connect
        self._busy = (self._duckdb.IOException, self._duckdb.ResourceInUseException)

    def _connect(self) -> Any:
        """Waits a little for whoever has the file open."""
        until = time.monotonic() + HISTORY_LOCK_SECONDS
        while True:
            try:
                return self._open(str(self._file))
            except self._busy:
                if time.monotonic() > until:
                    raise
            time.sleep(HISTORY_LOCK_LOOK_SECONDS)

    def _make_tables(self, connection: Any) -> None:
        for statement in tables_as("plain"):
            connection.execute(statement)

    def _execute(self, connection: Any, sql: str) -> None:
        connection.execute(sql)

    def _ask(self, connection: Any, name: str, **parameters: object) -> Sequence[Any]:
        found: Sequence[Any] = connection.execute(
            to_dollars(STATEMENTS[name]), parameters
        ).fetchall()
        return found

    def _stage(self, connection: Any, rows: Staged) -> None:
        """A list per column: row by row would take some seventy times as long."""
        lists = ", ".join(f"unnest(${place})" for place in range(1, len(rows.columns) + 1))
        connection.execute(
            f"INSERT INTO {rows.table} ({', '.join(rows.columns)}) SELECT {lists}",
            [list(column) for column in zip(*rows.rows, strict=True)],
        )

    def _translated(self, error: Exception) -> HistoryError | None:
        if isinstance(error, (*self._busy, self._duckdb.TransactionException)):
            return HistoryUnavailable(
                f"the DuckDB file {self._file} cannot be opened or written: {error}",
                hint="one process at a time can have it open",
            )
        if isinstance(error, self._duckdb.Error):
            return HistoryRefused(f"DuckDB: {error}")
        return None


def _driver() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise InvalidInput(
            "a history in DuckDB requires the package duckdb",
            hint='pip install "outrider[duckdb]"',
        ) from error
    return duckdb
