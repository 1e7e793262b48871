"""Applies the numbered migrations, all that are missing in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import apsw

from outrider.stores import migrations
from outrider.stores.sqlite.values import time_to_text

MIGRATIONS = migrations.load_migrations(Path(__file__).parent / "migrations")


def migrate(connection: apsw.Connection) -> Sequence[str]:
    cursor = connection.cursor()
    cursor.execute("BEGIN IMMEDIATE")
    try:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations "
            "(name text PRIMARY KEY, sha256 text NOT NULL, applied_at text NOT NULL) STRICT"
        )
        missing = migrations.pending(MIGRATIONS, applied(connection))
        for migration in missing:
            cursor.execute(migration.sql)
            cursor.execute(
                "INSERT INTO schema_migrations VALUES (?, ?, ?)",
                (migration.name, migration.sha256, time_to_text(datetime.now(UTC))),
            )
        cursor.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            cursor.execute("ROLLBACK")
        raise
    return [migration.name for migration in missing]


def applied(connection: apsw.Connection) -> Mapping[str, str]:
    if not connection.table_exists("main", "schema_migrations"):
        return {}
    rows = connection.execute("SELECT name, sha256 FROM schema_migrations").fetchall()
    return {str(name): str(sha256) for name, sha256 in rows}
