"""The outcome of the calls of a window, a route or a whole job, as reported to its caller."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Done:
    """Everything was called."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The target accepts no more for now; what is left waits without using up an attempt."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Lost:
    """The job is no longer ours."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The job's phase was paused or stopped, or this worker is stopping: calls in progress have
    ended, and no more are made."""


WindowOutcome = Done | Deferred | Lost | Suspended


def earliest(known: Deferred | None, outcome: Done | Deferred) -> Deferred | None:
    if not isinstance(outcome, Deferred):
        return known
    return outcome if known is None or outcome.until < known.until else known
