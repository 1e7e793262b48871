"""Suppressions: an address that must not be called on a channel, the reason, and the scope.

One applies to a whole channel or to one topic. It blocks transactional messages only if the address
must not be used at all, not if its owner merely wants fewer messages.
"""

from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

EVERYTHING = ""
"""The stored topic of a suppression that covers a whole channel."""


class SuppressionSource(StrEnum):
    """Why an address must not be called."""

    API = "api"
    UNSUBSCRIBE = "unsubscribe"
    BOUNCE = "bounce"
    COMPLAINT = "complaint"
    STOP = "stop"
    IMPORT = "import"


HARD = frozenset({SuppressionSource.BOUNCE, SuppressionSource.COMPLAINT, SuppressionSource.STOP})
"""About the address itself: nothing at all is sent to it on that channel."""


class OptOut(NamedTuple):
    """The common reason of addresses that are suppressed together."""

    reason: str
    source: SuppressionSource = SuppressionSource.API
    evidence: str | None = None
    topic: str | None = None
    include_transactional: bool = False

    @property
    def includes_transactional(self) -> bool:
        return self.include_transactional or self.source in HARD


class Suppression(NamedTuple):
    """A stored suppression; it covers the whole channel if it has no topic."""

    channel: str
    address: str
    topic: str | None
    reason: str
    source: SuppressionSource
    evidence: str | None
    includes_transactional: bool
    created_at: datetime
