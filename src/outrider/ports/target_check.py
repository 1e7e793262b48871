"""The target check: would this target accept a message now? Determined without sending one.

A gateway that supports it has `check`. The result is a value: which step failed, in the server's
own words, and what to do next.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable


class CheckStep(StrEnum):
    """How far a check got, in the order in which a delivery gets there."""

    SETUP = "setup"
    CONNECT = "connect"
    TLS = "tls"
    GREETING = "greeting"
    CREDENTIAL = "credential"
    SENDER = "sender"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """The first message would fail at this step."""

    step: CheckStep
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class CheckWarning:
    """The target answers, but whether it would accept a message could not be determined."""

    step: CheckStep
    message: str
    hint: str


CheckFinding = CheckFailure | CheckWarning


@runtime_checkable
class CheckableGateway(Protocol):
    """A gateway whose protocol has a harmless call."""

    async def check(self, seconds: float) -> CheckFinding | None:
        """None if a message would be accepted. Takes at most this many seconds, and never raises
        for what the provider or the network does."""
        ...
