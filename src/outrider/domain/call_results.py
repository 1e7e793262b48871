"""What a gateway's call came to: an answer, a failure that says how far it got, or no attempt.

These are values, never exceptions; `submission.py` says what a contract makes of each.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum

DUPLICATE_REFERENCE = "duplicate_reference"


class Progress(StrEnum):
    """How far a call got, from what really happened on the socket. What came back and was no answer
    of the gateway's protocol is recorded as none."""

    NOT_SENT = "NOT_SENT"
    SENT_NO_ANSWER = "SENT_NO_ANSWER"
    ANSWERED = "ANSWERED"


@dataclass(frozen=True, slots=True)
class Accepted:
    provider_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """The provider answered no. The reason is one of its gateway type's taxonomy."""

    reason: str
    detail: str = ""
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptError:
    """No usable answer: the line failed, or what came back made no sense (then ANSWERED)."""

    progress: Progress
    code: str
    detail: str = ""
    retry_after_seconds: float | None = None


TARGET_THROTTLED = "target_throttled"
TARGET_DOWN = "target_down"
TARGET_SETUP = "target_setup"
"""It cannot be called at all as it is set up: an option, a sender, a secret or a certificate."""
SETUP_WRONG = f"{TARGET_SETUP}: it is not set up correctly; run `outrider check` to see why"
"""What everybody is told of it: the words themselves may name a secret that is not theirs."""


class Closes(Enum):
    """What a provider that turns a call away is closed to: everybody, the workspace whose own
    credentials it was called with, or this item for a while."""

    THE_DOOR = "the door"
    THE_WORKSPACE = "the workspace"
    THE_ITEM = "the item"


@dataclass(frozen=True, slots=True)
class Throttled:
    """The provider took nothing and said to come back later. That is nobody's attempt."""

    detail: str = ""
    retry_after_seconds: float | None = None
    closes: Closes = Closes.THE_DOOR
    reason: str = TARGET_THROTTLED


@dataclass(frozen=True, slots=True)
class Held:
    """The provider took nothing and refused us or our set-up, not this message: nobody's attempt.

    Nothing goes that way until a probe is answered. Where the refusal came when the recipient or
    the message was already named, `closes` is THE_ITEM: then only this workspace is held back, and
    the next probe is another message.
    """

    reason: str
    detail: str = ""
    closes: Closes = Closes.THE_DOOR


@dataclass(frozen=True, slots=True)
class NotBegun:
    """The reservation said no at the last moment, and not a byte of the message has left."""

    reason: str


CallResult = Accepted | Rejected | AttemptError | Throttled | Held | NotBegun

UNAUTHORIZED = "unauthorized"
INVALID_ANSWER = "invalid_answer"

CAUSED_BY_THE_MESSAGE = frozenset({"unencodable", "invalid_header"})
"""Why a message could not be put on the line that no other time or target would change."""


POOL_TIMEOUT = "pool_timeout"
"""No connection of our own became free: that is our shortage, and no news of the target."""


def is_unreachable(result: CallResult) -> bool:
    """Not a byte of the message has left, and the message is not to blame."""
    return (
        isinstance(result, AttemptError)
        and result.progress is Progress.NOT_SENT
        and result.code not in CAUSED_BY_THE_MESSAGE
    )
