"""What can be observed of another worker's process: that it runs, that it is gone, or neither."""

from collections.abc import Callable
from enum import Enum


class Presence(Enum):
    RUNS = "runs"
    GONE = "gone"
    UNKNOWN = "unknown"
    """On another machine, boot, container or user: it may be running."""


PresenceOf = Callable[[str], Presence]
"""By the worker's id."""


def unseen(_worker_id: str) -> Presence:
    """Cannot see any other process."""
    return Presence.UNKNOWN
