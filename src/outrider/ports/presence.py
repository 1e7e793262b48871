"""What can be seen of another worker's process: that it runs, that it is gone, or neither."""

from collections.abc import Callable
from enum import Enum


class Presence(Enum):
    RUNS = "runs"
    GONE = "gone"
    UNKNOWN = "unknown"
    """Of another machine, boot, container or user: it may run."""


PresenceOf = Callable[[str], Presence]
"""By the worker's id."""


def unseen(_worker_id: str) -> Presence:
    """Nothing of any other process can be seen from here."""
    return Presence.UNKNOWN
