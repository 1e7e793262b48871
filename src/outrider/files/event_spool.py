"""A spool as a folder: one file per entry, written to a temporary file, synced and renamed, so
never seen incomplete."""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from outrider.files.private_files import new_private_file, private_folder
from outrider.ports.clock import IdSource

READY = ".json"
BAD = ".bad"


class LocalSpool:
    def __init__(self, root: Path, ids: IdSource) -> None:
        self._root = root
        self._ids = ids

    async def put(self, content: bytes) -> None:
        # Ids are in time order, and so are the names.
        name = self._ids.new()
        await asyncio.to_thread(self._write, name, content)

    async def names(self, most: int) -> Sequence[str]:
        return await asyncio.to_thread(self._names, most)

    async def read(self, name: str) -> bytes | None:
        def read() -> bytes | None:
            try:
                return (self._root / name).read_bytes()
            except FileNotFoundError:
                return None

        return await asyncio.to_thread(read)

    async def remove(self, name: str) -> None:
        await asyncio.to_thread((self._root / name).unlink, missing_ok=True)

    async def set_aside(self, name: str) -> None:
        def rename() -> None:
            path = self._root / name
            with contextlib.suppress(FileNotFoundError):
                path.rename(path.with_suffix(BAD))

        await asyncio.to_thread(rename)

    def _write(self, name: str, content: bytes) -> None:
        private_folder(self._root)
        beside = self._root / f".{name}"
        with new_private_file(beside) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.rename(self._root / f"{name}{READY}")
        folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _names(self, most: int) -> list[str]:
        try:
            entries = os.listdir(self._root)
        except FileNotFoundError:
            return []
        return sorted(name for name in entries if name.endswith(READY))[:most]
