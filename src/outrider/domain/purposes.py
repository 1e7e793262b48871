"""What a message is for, where opt-outs are concerned: its topic, and whether it is transactional.

A campaign, a rule and an intent declare it once; every ledger row carries it, because the statement
that opens an attempt checks opt-outs against the row.
"""

import re
from typing import Final, NamedTuple

_TOPIC: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
TOPIC_PATTERN: Final = rf"^{_TOPIC.pattern}$"
TOPIC_MAX_CHARACTERS: Final = 64
TOPIC_RULE: Final = (
    "should be a name such as newsletter: a-z, 0-9, '_', '.' and '-', at most 64 characters"
)


class Purpose(NamedTuple):
    topic: str | None = None
    """What people can opt out of separately; without one only a channel-wide opt-out applies."""
    transactional: bool = False
    """Requested or needed by the recipient: a marketing unsubscribe does not hold it back."""


UNSTATED: Final = Purpose()


def is_topic(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None


def checked_topic(name: str) -> str:
    """For documents: the name, or a ValueError that says how topics are named."""
    if not is_topic(name):
        raise ValueError(TOPIC_RULE)
    return name
