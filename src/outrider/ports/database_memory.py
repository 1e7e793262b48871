"""The memory of a database: when it was last noted to be where it is, kept outside of it."""

from datetime import datetime
from typing import Protocol


class DatabaseMemory(Protocol):
    def read(self) -> datetime | None: ...

    def write(self, noted_at: datetime) -> None: ...
