"""The memory of a database as a small file of this machine: a restored backup does not have it."""

import hashlib
import os
from datetime import datetime
from pathlib import Path

from outrider.domain.restored_database import RememberedDatabase
from outrider.files.private_files import new_private_file, private_folder

SUFFIX = ".noted"


class DatabaseMemoryFile:
    def __init__(self, folder: Path, database_url: str) -> None:
        self._folder = folder
        self._path = folder / (hashlib.sha256(database_url.encode()).hexdigest()[:32] + SUFFIX)

    def read(self) -> RememberedDatabase | None:
        """None if this machine has no memory of it."""
        try:
            noted_at, *numbers = self._path.read_text("ascii").split()
            releases, *positions = map(int, numbers or "0")
            position = positions[0] if positions else None
            return RememberedDatabase(datetime.fromisoformat(noted_at), releases, position)
        except (OSError, ValueError):
            return None

    def write(self, remembered: RememberedDatabase) -> None:
        """Whole or not at all, whoever else writes it."""
        noted_at, releases, position = remembered
        words = [noted_at.isoformat(), str(releases)]
        if position is not None:
            words.append(str(position))
        private_folder(self._folder)
        beside = self._path.with_suffix(f".{os.getpid()}")
        beside.unlink(missing_ok=True)
        with new_private_file(beside) as file:
            file.write(" ".join(words).encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
