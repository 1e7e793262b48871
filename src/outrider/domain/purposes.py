"""What a message is for, as far as opt-outs ask: its topic, and whether it is transactional.

A campaign, a rule and an intent say it once; every ledger row carries it, because it is there that
opt-outs are looked up, in the statement that opens an attempt.
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
    """What people can opt out of by itself; without one only a whole channel holds it back."""
    transactional: bool = False
    """Somebody asked for it, or needs it: an unsubscribe from marketing does not hold it back."""


UNSTATED: Final = Purpose()


def is_topic(name: str) -> bool:
    return _TOPIC.fullmatch(name) is not None


def checked_topic(name: str) -> str:
    """For documents: the name, or a ValueError that says how topics are named."""
    if not is_topic(name):
        raise ValueError(TOPIC_RULE)
    return name
