"""Migrations: numbered SQL files with checksums; compares the database's with the code's.

A landed migration is never edited, and a database newer than the code is never touched.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrider.domain.errors import SchemaMismatch


@dataclass(frozen=True, slots=True)
class Migration:
    name: str
    sql: str

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def load_migrations(folder: Path) -> list[Migration]:
    return [Migration(path.stem, path.read_text()) for path in sorted(folder.glob("*.sql"))]


def pending(available: Sequence[Migration], applied: Mapping[str, str]) -> list[Migration]:
    """What is still to be applied; raises if database and code do not belong together."""
    known = {migration.name: migration.sha256 for migration in available}
    newer = sorted(set(applied) - set(known))
    if newer:
        raise SchemaMismatch(
            f"the database is newer than this code: it has {', '.join(newer)}",
            hint="upgrade outrider on this machine, or point it at another database",
        )
    edited = sorted(name for name, sha256 in applied.items() if known[name] != sha256)
    if edited:
        raise SchemaMismatch(
            f"{', '.join(edited)} was applied in a different form than in this code",
            hint="a landed migration must never be edited: restore the released file",
        )
    return [migration for migration in available if migration.name not in applied]


def verify(available: Sequence[Migration], applied: Mapping[str, str]) -> None:
    missing = pending(available, applied)
    if missing:
        names = ", ".join(migration.name for migration in missing)
        raise SchemaMismatch(
            f"the database schema is missing {names}", hint="run `outrider migrate` first"
        )
