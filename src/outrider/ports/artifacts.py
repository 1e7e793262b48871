"""The artifact port: files that a phase writes, kept somewhere and known by reference and hash."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """Where the bytes are (`file:…`), and what proves that they are still the same."""

    reference: str
    sha256: str
    size_bytes: int


class ArtifactStore(Protocol):
    async def put(self, folder: str, name: str, content: AsyncIterator[bytes]) -> StoredArtifact:
        """Write all of it durably under that name, replacing what was there, or nothing."""
        ...

    def read(self, reference: str) -> AsyncIterator[bytes]:
        """The bytes, piece by piece. Raises NotFound where they are gone."""
        ...
