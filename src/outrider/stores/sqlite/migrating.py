"""Applies the numbered migrations, all that are missing in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import apsw

from outrider.stores.migrations import Applied, Migration, pending
from outrider.stores.sqlite.values import time_to_text


def migrate(connection: apsw.Connection, available: Sequence[Migration]) -> Sequence[str]:
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        missing = pending(available, applied(connection))
        if missing:
            _prepare(connection)
        for migration in missing:
            cursor.execute(migration.sql)
            cursor.execute(
                "INSERT INTO schema_migrations (name, sha256, applied_at, is_breaking)"
                " VALUES (?, ?, ?, ?)",
                (
                    migration.name, migration.sha256, time_to_text(datetime.now(UTC)),
                    migration.is_breaking,
                ),
            )  # fmt: skip
        cursor.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise
    return [migration.name for migration in missing]


def applied(connection: apsw.Connection) -> Mapping[str, Applied]:
    table = _table(connection)
    if table is None:
        return {}
    # Databases of before have no such column: nothing runs beside what is newer than that.
    breaking = "is_breaking" if "is_breaking" in table else "1"
    rows = connection.execute(f"SELECT name, sha256, {breaking} FROM schema_migrations")
    return {str(name): Applied(str(sha256), bool(is_so)) for name, sha256, is_so in rows}


def _prepare(connection: apsw.Connection) -> None:
    table = _table(connection)
    if table is None:
        connection.execute(
            "CREATE TABLE schema_migrations (name text PRIMARY KEY, sha256 text NOT NULL,"
            " applied_at text NOT NULL, is_breaking integer NOT NULL DEFAULT 0) STRICT"
        )
    elif "is_breaking" not in table:
        connection.execute(
            "ALTER TABLE schema_migrations ADD COLUMN is_breaking integer NOT NULL DEFAULT 0"
        )


def _table(connection: apsw.Connection) -> str | None:
    """Its definition, as the file has it: what a connection knows of tables may be out of date."""
    query = "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = 'schema_migrations'"
    found = connection.execute(query).fetchone()
    return None if found is None else str(found[0])
