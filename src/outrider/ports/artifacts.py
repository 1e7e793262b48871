"""The artifact port: files that a phase writes, stored and referenced by URI and hash."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredArtifact:
    """Where the bytes are (`file:…`), and the hash that verifies them."""

    reference: str
    sha256: str
    size_bytes: int


class ArtifactStore(Protocol):
    async def put(self, folder: str, name: str, content: AsyncIterator[bytes]) -> StoredArtifact:
        """Write all of it durably under that name, replacing any earlier version, or nothing."""
        ...

    def read(self, reference: str) -> AsyncIterator[bytes]:
        """The bytes, in chunks. Raises NotFound if they are gone."""
        ...
