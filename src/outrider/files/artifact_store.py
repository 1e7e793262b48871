"""Artifacts as files in one folder: written to a temporary file, synced and renamed, so never seen
incomplete."""

import asyncio
import errno
import hashlib
import os
import re
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from outrider.domain.artifacts import refuse_name
from outrider.domain.errors import ArtifactsUnavailable, InvalidInput, NotFound
from outrider.files.private_files import new_private_file, private_folder
from outrider.limits.artifacts import (
    ARTIFACT_LEFTOVER_SECONDS,
    ARTIFACT_MAX_BYTES,
    ARTIFACT_PIECE_BYTES,
)
from outrider.ports.artifacts import StoredArtifact

SCHEME = "file:"
NOT_THERE = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EACCES}
)

RANDOM_BYTES = 8
_LEFTOVER = re.compile(rf"\..+\.[0-9a-f]{{{2 * RANDOM_BYTES}}}")


class LocalArtifacts:
    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, folder: str, name: str, content: AsyncIterator[bytes]) -> StoredArtifact:
        for part in (folder, name):
            refuse_name(part)
        if _LEFTOVER.fullmatch(name):
            raise InvalidInput(f"{name!r} is reserved for unfinished artifacts")
        target = self._path(f"{folder}/{name}")
        await asyncio.to_thread(private_folder, self._root)
        await asyncio.to_thread(private_folder, target.parent)
        await asyncio.to_thread(_clear_leftovers, target.parent)
        beside = target.with_name(f".{target.name}.{secrets.token_hex(RANDOM_BYTES)}")
        digest, size = hashlib.sha256(), 0
        try:
            with new_private_file(beside) as file:
                async for piece in content:
                    size += len(piece)
                    if size > ARTIFACT_MAX_BYTES:
                        raise InvalidInput(f"{name} is over {ARTIFACT_MAX_BYTES:,} bytes")
                    digest.update(piece)
                    await asyncio.to_thread(file.write, piece)
                await asyncio.to_thread(_sync, file)
            await asyncio.to_thread(beside.replace, target)
            await asyncio.to_thread(_sync_folders, target.parent, self._root)
        finally:
            beside.unlink(missing_ok=True)
        # Absolute: a reader of a run's log does not know our working directory.
        return StoredArtifact(target.as_uri(), digest.hexdigest(), size)

    async def read(self, reference: str) -> AsyncIterator[bytes]:
        path = self._path(_relative(reference))
        try:
            file = await asyncio.to_thread(path.open, "rb")
        except OSError as error:
            # A disk that does not answer does not prove that the file is gone.
            refusal = NotFound if error.errno in NOT_THERE else ArtifactsUnavailable
            raise refusal(
                f"the artifact {reference} cannot be read: {error.strerror}",
                hint="check that OUTRIDER_ARTIFACTS is the folder that holds it",
            ) from error
        with file:
            while piece := await asyncio.to_thread(file.read, ARTIFACT_PIECE_BYTES):
                yield piece

    def _path(self, relative: str) -> Path:
        path = (self._root / relative.replace("\0", "?")).resolve()
        if not path.is_relative_to(self._root.resolve()):
            raise NotFound("there is no such artifact")
        return path


def _relative(reference: str) -> str:
    """Its folder and its name: another process may have mounted the same folder elsewhere. Older
    references have nothing else."""
    path = reference.removeprefix(SCHEME)
    if not path.startswith("//"):
        return path
    return "/".join(unquote(path).split("/")[-2:])


def _clear_leftovers(folder: Path) -> None:
    """Leftovers of killed writers. A live writer has written within the last hour."""
    before = time.time() - ARTIFACT_LEFTOVER_SECONDS
    for entry in os.scandir(folder):
        with suppress(FileNotFoundError):
            if _LEFTOVER.fullmatch(entry.name) and entry.stat().st_mtime < before:
                os.unlink(entry.path)


def _sync(file: BinaryIO) -> None:
    # Data in this process's buffer cannot be synced.
    file.flush()
    os.fsync(file.fileno())


def _sync_folders(*folders: Path) -> None:
    """A rename is durable once its folder is synced, and so is a new folder."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
