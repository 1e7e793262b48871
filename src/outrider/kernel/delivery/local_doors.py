"""What this process knows of a target's doors, and the leave to begin calls that follows."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from outrider.domain.targets import Door, Report


@dataclass
class LocalDoor:
    """What this process knows of a door, and what it has yet to tell the others of it."""

    epoch: int = 0
    trusted_until: datetime | None = None
    is_untroubled: bool = False
    closed_until: datetime | None = None
    failures: int = 0
    answered_at: float = float("-inf")
    refused: int = 0
    """Connections refused since `answered_at`, while others went through."""
    untold: list[Report] = field(default_factory=list)

    def is_trusted(self, now: datetime) -> bool:
        return self.is_untroubled and self.trusted_until is not None and now < self.trusted_until

    def learn(self, door: Door | None, now: datetime, trust_seconds: float) -> None:
        """The door as the store has it; None: nothing was ever wrong with it."""
        self.trusted_until = now + timedelta(seconds=trust_seconds)
        if door is None:
            self.is_untroubled, self.closed_until = True, None
            return
        self.is_untroubled = door.is_untroubled
        self.epoch = max(self.epoch, door.epoch)
        self.closed_until = None if door.is_open else door.opens_at

    def shut(self) -> None:
        """Nobody here begins a call that was admitted before; when it opens, the store says."""
        self.epoch += 1
        self.is_untroubled = False
        self.failures = 0
        self.trusted_until = None


@dataclass(frozen=True, slots=True)
class Passes:
    """Leave to begin `granted` calls, for as long as neither door has closed since."""

    granted: int
    shared: LocalDoor
    own: LocalDoor
    shared_epoch: int
    own_epoch: int
    is_probe: bool = False
    is_own_probe: bool = False
    """It tries the door of its workspace alone: the others go through."""

    @property
    def stand(self) -> bool:
        """Whether neither door has closed since; asked at the last moment before a call."""
        return self.shared.epoch == self.shared_epoch and self.own.epoch == self.own_epoch


@dataclass(frozen=True, slots=True)
class ComeBack:
    """No call may begin before then."""

    at: datetime
