"""What an answer is about, and what it proves: the two questions every family's table answers.

Only an answer about the item may end it or use up an attempt. One about the target or about us
holds the target, and all of its messages wait.
"""

from enum import StrEnum


class Party(StrEnum):
    ITEM = "item"
    """This recipient or this message: others may be sent."""
    TARGET = "target"
    """The provider's state: the same message may be sent later."""
    US = "us"
    """Our own set-up: name, sender, credential, certificate, option, reputation."""


class Proof(StrEnum):
    """What an answer proves about the message. Neither: in doubt, unless the target remembers."""

    TAKEN = "taken"
    NOTHING_TAKEN = "nothing taken"
    NEITHER = "neither"
