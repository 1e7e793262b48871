"""Signals: how an operator steers a run. Each is authorised first, and the decision is recorded."""

from dataclasses import dataclass
from enum import StrEnum


class Signal(StrEnum):
    APPROVE = "APPROVE"
    PAUSE = "PAUSE"
    RESUME = "RESUME"
    CANCEL = "CANCEL"
    RETRY_STEP = "RETRY_STEP"
    ADVANCE = "ADVANCE"
    """Release the next step of its rollout now."""
    DECIDE = "DECIDE"
    """Choose the variant of a message that its last step is sent."""


@dataclass(frozen=True, slots=True)
class AskedSignal:
    """A signal as sent; the same id means the same signal."""

    signal: Signal
    signal_id: str
    step_id: str | None = None
    message_id: str | None = None
    variant: str | None = None
    """Of DECIDE, with the message."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """The sender is authorised."""


@dataclass(frozen=True, slots=True)
class Denied:
    reason: str


AuthorisationDecision = Allowed | Denied
