"""The target check: would this target take a message now? Found out without sending one.

A gateway that can be asked says so by having `check`. What it finds is a value: which step failed,
in the server's own words, and what to do next.
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
    """The target answers, but whether it would take a message could not be found out."""

    step: CheckStep
    message: str
    hint: str


CheckFinding = CheckFailure | CheckWarning


@runtime_checkable
class CheckableGateway(Protocol):
    """A gateway that knows a call of its protocol which cannot be a message."""

    async def check(self, seconds: float) -> CheckFinding | None:
        """None where a message would be taken. Takes no longer than so many seconds, and never
        raises for what the provider or the network does."""
        ...
