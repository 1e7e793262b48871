"""How the calls of a window, a route or a whole job came out, to whoever asked for them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Done:
    """Everything was sent on its way."""


@dataclass(frozen=True, slots=True)
class Deferred:
    """The target takes no more for now; what is left waits without using up an attempt."""

    until: datetime


@dataclass(frozen=True, slots=True)
class Lost:
    """The job is no longer ours."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The job's phase was paused or stopped, or this worker stops: calls that were out have ended,
    and no more are made."""


WindowOutcome = Done | Deferred | Lost | Suspended


def earliest(known: Deferred | None, passage: Done | Deferred) -> Deferred | None:
    if not isinstance(passage, Deferred):
        return known
    return passage if known is None or passage.until < known.until else known
