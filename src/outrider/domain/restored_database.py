"""Why a database is taken for one that was restored or promoted, and what that is judged by."""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple


class RestoredDatabase(StrEnum):
    MOVED = "it is not where its workers found it before: restored, copied or promoted"
    WENT_BACK = "it has gone back in time: it knows less than it did before"


class DatabasePlace(NamedTuple):
    """Where a database is, and how far its server's log has been written durably."""

    name: str
    log_position: int | None = None

    def is_behind(self, other: int | None) -> bool:
        """Positions of one server's log only grow, whatever crashes."""
        return other is not None and self.log_position is not None and self.log_position < other


class RememberedDatabase(NamedTuple):
    """What a machine remembers of a database, outside of it."""

    noted_at: datetime
    releases: int = 0
    """A released database may be behind what was remembered before: that was another one."""
    log_position: int | None = None
