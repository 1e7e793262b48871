"""Whom an answer is about, and what it proves: the two questions that every family's table answers.

Only what is about the item may end it or use up an attempt. What is about the target or about us
holds the target, and everybody's message waits.
"""

from enum import StrEnum


class Party(StrEnum):
    ITEM = "item"
    """This recipient or this message: another one may go."""
    TARGET = "target"
    """The provider's state: the same message may go later."""
    US = "us"
    """What we are or have set up: name, sender, credential, certificate, option, reputation."""


class Proof(StrEnum):
    """What an answer says of the message. Neither: it is in doubt, unless the target remembers."""

    TAKEN = "taken"
    NOTHING_TAKEN = "nothing taken"
    NEITHER = "neither"
