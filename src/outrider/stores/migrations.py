"""Migrations: numbered SQL files with checksums; compares the database's with the code's.

A landed migration is never edited. The version before runs beside a migration that only adds to the
schema; one that breaks it says so in its first line, and the database remembers that.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.domain.errors import SchemaMismatch

_BREAKING = re.compile(r"^-- Breaks the version before: \S", re.MULTILINE)
_CONCURRENT_INDEX = re.compile(
    r"^CREATE (?:UNIQUE )?INDEX CONCURRENTLY IF NOT EXISTS (\w+)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Migration:
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def is_breaking(self) -> bool:
        """Code of the version before cannot use the database once this is applied."""
        return _BREAKING.search(self.sql) is not None

    @property
    def concurrent_index(self) -> str | None:
        """The index that this migration, a single statement, builds while the table is in use.
        Postgres does that outside transactions only."""
        found = _CONCURRENT_INDEX.search(self.sql)
        return found and found[1]


@dataclass(frozen=True, slots=True)
class Applied:
    """What a database remembers of a migration, for code that does not have it."""

    sha256: str
    is_breaking: bool


def load_migrations(folder: Path) -> list[Migration]:
    return [Migration(path.stem, path.read_text()) for path in sorted(folder.glob("*.sql"))]


def pending(available: Sequence[Migration], applied: Mapping[str, Applied]) -> list[Migration]:
    """What is still to be applied; raises if database and code do not belong together."""
    known = {migration.name: migration.sha256 for migration in available}
    newer = sorted(name for name, its in applied.items() if name not in known and its.is_breaking)
    if newer:
        raise SchemaMismatch(
            f"the database is newer than this code: it has {', '.join(newer)}",
            hint="upgrade outrider on this machine, or point it at another database",
        )
    edited = sorted(name for name in known.keys() & applied if known[name] != applied[name].sha256)
    if edited:
        raise SchemaMismatch(
            f"{', '.join(edited)} was applied in a different form than in this code",
            hint="a landed migration must never be edited: restore the released file",
        )
    return [migration for migration in available if migration.name not in applied]


def verify(available: Sequence[Migration], applied: Mapping[str, Applied]) -> None:
    missing = pending(available, applied)
    if missing:
        names = ", ".join(migration.name for migration in missing)
        raise SchemaMismatch(
            f"the database schema is missing {names}", hint="run `outrider migrate` first"
        )
