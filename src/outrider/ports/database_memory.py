"""The memory of a database: when and where it was last noted to be, kept outside of it."""

from typing import Protocol

from outrider.domain.restored_database import RememberedDatabase


class DatabaseMemory(Protocol):
    def read(self) -> RememberedDatabase | None: ...

    def write(self, remembered: RememberedDatabase) -> None: ...
