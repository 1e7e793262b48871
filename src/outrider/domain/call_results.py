"""The result of a gateway call: an answer, a failure that says how far it got, or no attempt.

These are values, never exceptions; `submission.py` says what a contract makes of each.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum

DUPLICATE_REFERENCE = "duplicate_reference"


class Progress(StrEnum):
    """How far a call got, from what really happened on the socket. Bytes that are not an answer in
    the gateway's protocol are recorded as no answer."""

    NOT_SENT = "NOT_SENT"
    SENT_NO_ANSWER = "SENT_NO_ANSWER"
    ANSWERED = "ANSWERED"


@dataclass(frozen=True, slots=True)
class Accepted:
    provider_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The provider refused it. The reason is from its gateway type's taxonomy."""

    reason: str
    detail: str = ""
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptError:
    """No usable answer: the connection failed, or the reply made no sense (then ANSWERED)."""

    progress: Progress
    code: str
    detail: str = ""
    retry_after_seconds: float | None = None


TARGET_THROTTLED = "target_throttled"
TARGET_DOWN = "target_down"
TARGET_SETUP = "target_setup"
"""The set-up makes any call impossible: an option, a sender, a secret or a certificate."""
SETUP_WRONG = f"{TARGET_SETUP}: it is not set up correctly; run `outrider check` to see why"
"""The text shown to other workspaces: the full detail may name a secret that is not theirs."""


class Closes(Enum):
    """Who a provider that turned a call away is closed to: everyone, the workspace whose own
    credentials it was called with, or this item for a while."""

    THE_DOOR = "the door"
    THE_WORKSPACE = "the workspace"
    THE_ITEM = "the item"


@dataclass(frozen=True, slots=True)
class Throttled:
    """The provider took nothing and said to come back later. It does not count as an attempt."""

    detail: str = ""
    retry_after_seconds: float | None = None
    closes: Closes = Closes.THE_DOOR
    reason: str = TARGET_THROTTLED


@dataclass(frozen=True, slots=True)
class Held:
    """The provider took nothing and refused us or our set-up, not this message: not an attempt.

    Nothing is sent that way until a probe is answered. If the refusal came after the recipient or
    the message was named, `closes` is THE_ITEM: then only this workspace is held back, and the next
    probe uses another message.
    """

    reason: str
    detail: str = ""
    closes: Closes = Closes.THE_DOOR


@dataclass(frozen=True, slots=True)
class NotBegun:
    """The reservation was withdrawn just before the first byte of the message was sent."""

    reason: str


CallResult = Accepted | Rejected | AttemptError | Throttled | Held | NotBegun

UNAUTHORIZED = "unauthorized"
INVALID_ANSWER = "invalid_answer"

CAUSED_BY_THE_MESSAGE = frozenset({"unencodable", "invalid_header"})
"""Reasons a message could not be written to the connection that no retry or other target fixes."""


POOL_TIMEOUT = "pool_timeout"
"""No connection of ours was free: our own shortage, which says nothing about the target."""


def is_unreachable(result: CallResult) -> bool:
    """No byte of the message was sent, and the message is not to blame."""
    return (
        isinstance(result, AttemptError)
        and result.progress is Progress.NOT_SENT
        and result.code not in CAUSED_BY_THE_MESSAGE
    )
