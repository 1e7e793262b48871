"""The outcome of the calls of a window, a route or a whole job, as reported to its caller."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Done:
    """Everything was called."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """No more may be called for now; what is left waits without using up an attempt."""

    until: datetime
    waiting: Mapping[str, int] | None = None
    """How many members wait for a policy, by which; None if no policy applies."""


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
