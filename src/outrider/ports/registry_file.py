"""Where the registry lives between restarts: read whole, replaced whole."""

from typing import Protocol


class RegistryFile(Protocol):
    def read(self) -> bytes:
        """The whole file; InvalidInput says why it cannot be read."""
        ...

    def write(self, raw: bytes) -> None:
        """Replace it durably: at any time, a reader finds either the old or the new."""
        ...
