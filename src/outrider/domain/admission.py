"""Admission: whether a workspace has room for another run, and what happens if it does not."""

from dataclasses import dataclass
from enum import StrEnum


class OverloadPolicy(StrEnum):
    """Refuse the run, queue it until there is room, or accept it and start it later."""

    REJECT = "reject"
    QUEUE = "queue"
    DELAY = "delay"


@dataclass(frozen=True, slots=True)
class AdmissionRule:
    """How much work a workspace may have in progress; None means no limit."""

    policy: OverloadPolicy = OverloadPolicy.QUEUE
    concurrent_runs: int | None = None
    waiting_items: int | None = None
    retry_after_seconds: int = 30
    delay_seconds: int = 60

    @property
    def has_limit(self) -> bool:
        return self.concurrent_runs is not None or self.waiting_items is not None


@dataclass(frozen=True, slots=True)
class Load:
    """What a workspace has in progress: released runs, and unfinished items."""

    runs: int
    waiting_items: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """Release it now."""


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    retry_after_seconds: int


@dataclass(frozen=True, slots=True)
class Queued:
    """It waits until there is room."""


@dataclass(frozen=True, slots=True)
class Delayed:
    seconds: int


Admission = Admitted | NotAdmitted | Queued | Delayed


def has_room(rule: AdmissionRule, load: Load) -> bool:
    """A run of any size is admitted while the item limit has not been reached: otherwise the
    largest campaign would never run."""
    if rule.concurrent_runs is not None and load.runs >= rule.concurrent_runs:
        return False
    return rule.waiting_items is None or load.waiting_items < rule.waiting_items


def admit(rule: AdmissionRule, load: Load) -> Admission:
    if has_room(rule, load):
        return Admitted()
    match rule.policy:
        case OverloadPolicy.REJECT:
            return NotAdmitted(rule.retry_after_seconds)
        case OverloadPolicy.QUEUE:
            return Queued()
        case OverloadPolicy.DELAY:
            return Delayed(rule.delay_seconds)
