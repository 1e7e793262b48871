"""Triggers: the names of business events, and which of them have listeners."""

from collections.abc import Iterable
from typing import Final

LEAD_WELCOME: Final = "lead_welcome"
QUOTE_SENT: Final = "quote_sent"
QUOTE_ACCEPTED: Final = "quote_accepted"
QUOTE_REJECTED: Final = "quote_rejected"
APPOINTMENT: Final = "appointment"

BUILT_IN_TRIGGERS: Final = frozenset(
    {LEAD_WELCOME, QUOTE_SENT, QUOTE_ACCEPTED, QUOTE_REJECTED, APPOINTMENT}
)


def known_triggers(of_senders: Iterable[str] = (), of_rules: Iterable[str] = ()) -> frozenset[str]:
    """The built-in ones, those of legacy senders, and those that a workspace's rules name."""
    return BUILT_IN_TRIGGERS.union(of_senders, of_rules)
