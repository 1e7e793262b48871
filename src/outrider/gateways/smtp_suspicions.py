"""What an ambiguous refusal is about: decided by the server's replies to other messages.

Several in a row are about us. One that is repeated while others were accepted is about its message.
Until either is seen, the message waits and nothing is blamed.
"""

from enum import Enum, auto

from cachetools import LRUCache

from outrider.limits.gateways import SMTP_SUSPECTS_MAX, SMTP_SUSPECTS_REMEMBERED


class Suspicion(Enum):
    US = auto()
    THE_ITEM = auto()
    UNDECIDED = auto()


class Suspicions:
    """For one mail server, in this process. Forgetting only delays a decision."""

    def __init__(self, most: int = SMTP_SUSPECTS_MAX) -> None:
        self._most = most
        self._taken = 0
        self._in_a_row: set[str] = set()
        """Distinct messages refused since one was accepted; at most `most`."""
        self._taken_when_refused: LRUCache[str, int] = LRUCache(SMTP_SUSPECTS_REMEMBERED)
        """By reference: how many messages had been accepted when it was first refused."""

    def taken(self) -> None:
        self._taken += 1
        if self._in_a_row:
            self._in_a_row.clear()

    def refused(self, reference: str) -> Suspicion:
        if len(self._in_a_row) < self._most:
            self._in_a_row.add(reference)
        if len(self._in_a_row) >= self._most:
            return Suspicion.US
        before = self._taken_when_refused.get(reference)
        if before is not None and self._taken > before:
            return Suspicion.THE_ITEM
        if before is None:
            self._taken_when_refused[reference] = self._taken
        return Suspicion.UNDECIDED
