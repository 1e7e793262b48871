"""Where the registry lives between restarts: read whole, replaced whole."""

from typing import Protocol


class RegistryFile(Protocol):
    def read(self) -> bytes:
        """All of it; InvalidInput says why it cannot be read."""
        ...

    def write(self, raw: bytes) -> None:
        """Replace it durably: whatever happens meanwhile, a reader finds the old or the new."""
        ...
