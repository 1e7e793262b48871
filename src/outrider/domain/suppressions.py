"""Suppressions: an address that must not be called on a channel, how that is known, and its reach.

It is for everything on the channel, or for one topic. It holds back transactional messages only
where it says that the address must not be used at all, not where somebody wants to hear less.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

EVERYTHING = ""
"""The topic of a suppression that is for a whole channel, as it is stored."""


class SuppressionSource(StrEnum):
    """How it is known that an address must not be called."""

    API = "api"
    UNSUBSCRIBE = "unsubscribe"
    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    STOP = "stop"
    IMPORT = "import"


HARD = frozenset({SuppressionSource.BOUNCE, SuppressionSource.COMPLAINT, SuppressionSource.STOP})
"""They are of the address itself: nothing at all is sent to it on that channel."""


class OptOut(NamedTuple):
    """What is said of addresses that are suppressed together."""

    reason: str
    source: SuppressionSource = SuppressionSource.API
    evidence: str | None = None
    topic: str | None = None
    include_transactional: bool = False

    @property
    def includes_transactional(self) -> bool:
        return self.include_transactional or self.source in HARD


class Suppression(NamedTuple):
    """One as it is kept; for everything on its channel where it has no topic."""

    channel: str
    address: str
    topic: str | None
    reason: str
    source: SuppressionSource
    evidence: str | None
    includes_transactional: bool
    created_at: datetime
