"""The registry on disk. A replacement is written beside it, synced, and renamed over it.

A crash leaves the old file or the new one, whole, and perhaps a temporary file beside it.
"""

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from outrider.domain.errors import InvalidInput

NEW_FILE_MODE = 0o644


class LocalRegistryFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes:
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise InvalidInput(
                f"the registry {self._path} cannot be read: {error.strerror}",
                hint="set OUTRIDER_REGISTRY to a registry file; examples/registry.json is one",
            ) from error

    def write(self, raw: bytes) -> None:
        try:
            self._replace(raw)
        except OSError as error:
            raise InvalidInput(
                f"the registry {self._path} cannot be written: {error.strerror}",
                hint="the old one is still in force; make its folder writable and try again",
            ) from error

    def _replace(self, raw: bytes) -> None:
        # A symlink stays a symlink: its target is replaced.
        path = self._path.resolve()
        descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "wb") as file:
                file.write(raw)
                file.flush()
                # The new file keeps the old one's read permissions.
                os.fchmod(file.fileno(), path.stat().st_mode if path.exists() else NEW_FILE_MODE)
                os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside)
            raise
        _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """A rename is durable once its folder is synced."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
