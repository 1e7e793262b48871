"""What this process knows about a target's doors, and the permission to begin calls."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from outrider.domain.call_results import CallResult
from outrider.domain.targets import Door, DoorState, Report
from outrider.kernel.delivery.reservations import OpenAttempt
from outrider.ports.tracing import WindowTrace


class Shape(Protocol):
    """What calls ask and report to where recipient domains are told apart."""

    def may_begin(self, attempt: OpenAttempt) -> bool: ...

    def note(self, attempt: OpenAttempt, result: CallResult) -> CallResult: ...


@dataclass
class LocalDoor:
    """What this process knows about a door, and what it has not reported to the others yet."""

    epoch: int = 0
    trusted_until: datetime | None = None
    is_untroubled: bool = False
    closed_until: datetime | None = None
    is_down: bool = False
    failures: int = 0
    answered_at: float = float("-inf")
    refused: int = 0
    """Connections refused since `answered_at`, while others succeeded."""
    unreported: list[Report] = field(default_factory=list)

    def is_trusted(self, now: datetime) -> bool:
        return self.is_untroubled and self.trusted_until is not None and now < self.trusted_until

    def learn(self, door: Door | None, now: datetime, trust_seconds: float) -> None:
        """The door as stored; None: it never had a problem."""
        self.trusted_until = now + timedelta(seconds=trust_seconds)
        if door is None:
            self.is_untroubled, self.closed_until, self.is_down = True, None, False
            return
        self.is_untroubled = door.is_untroubled
        self.epoch = max(self.epoch, door.epoch)
        self.closed_until = None if door.is_open else door.opens_at
        self.is_down = door.state is DoorState.DOWN

    def is_down_at(self, now: datetime) -> bool:
        return self.is_down and self.closed_until is not None and now < self.closed_until

    def shut(self) -> None:
        """Admitted calls that have not begun here no longer may; the store says when it opens."""
        self.epoch += 1
        self.is_untroubled = False
        self.failures = 0
        self.trusted_until = None


@dataclass(frozen=True, slots=True)
class Passes:
    """Permission to begin `granted` calls, valid while neither door has closed."""

    granted: int
    shared: LocalDoor
    own: LocalDoor
    shared_epoch: int
    own_epoch: int
    is_probe: bool = False
    is_own_probe: bool = False
    """It probes only its workspace's door; other calls go through."""
    trace: WindowTrace | None = None
    """Of the window that was opened with them, where traces are collected."""
    shape: Shape | None = None
    """The recipient domains of its route, where they are told apart."""

    @property
    def are_valid(self) -> bool:
        """Whether neither door has closed since; checked immediately before a call."""
        return self.shared.epoch == self.shared_epoch and self.own.epoch == self.own_epoch


@dataclass(frozen=True, slots=True)
class ComeBack:
    """No call may begin before then."""

    at: datetime
