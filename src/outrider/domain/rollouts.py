"""A rollout: a launch that reaches a small share of its audience first, and then more of it.

Every recipient has a draw, a number that depends on the run and the recipient alone. In the order
of their draws they are divided into steps, so that neither a crash nor another plan moves anybody.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

DRAW_BYTES = 7
LAST_DRAW = 2 ** (8 * DRAW_BYTES) - 1
WHOLE_PERCENT = 100


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """`percent` of the audience, those of the earlier steps included; then it is watched for a
    while."""

    percent: float
    hold_minutes: float = 0

    def as_document(self) -> dict[str, float]:
        return {"percent": self.percent, "holdMinutes": self.hold_minutes}


class Share(NamedTuple):
    """The members of one step: those from one rank to another, in the order of their draws."""

    step: int
    first_rank: int
    last_rank: int

    @property
    def members(self) -> int:
        return self.last_rank - self.first_rank + 1


class DrawnShare(NamedTuple):
    """The same by the draws themselves, which is how its jobs find their members."""

    step: int
    first_draw: int
    last_draw: int


def draw(salt: str, recipient_id: str) -> int:
    """The databases compute the same."""
    digest = hashlib.sha256(f"{salt}|{recipient_id}".encode()).digest()
    return int.from_bytes(digest[:DRAW_BYTES])


def shares(steps: Sequence[RolloutStep], members: int) -> list[Share]:
    """Rounded up, so that even a small step has somebody; a step without members is left out."""
    found, reached = [], 0
    for number, step in enumerate(steps, start=1):
        last = min(members, math.ceil(members * step.percent / WHOLE_PERCENT))
        if last > reached:
            found.append(Share(number, reached + 1, last))
            reached = last
    return found


def drawn(found: Sequence[Share], draw_at: dict[int, int]) -> list[DrawnShare]:
    """`draw_at` has the draw at the last rank of each share but the last."""
    result, first = [], 0
    for share in found[:-1]:
        last = draw_at[share.last_rank]
        result.append(DrawnShare(share.step, first, last))
        first = last + 1
    return [*result, *(DrawnShare(share.step, first, LAST_DRAW) for share in found[-1:])]


class RolloutState(StrEnum):
    WAITING = "waiting"
    SENDING = "sending"
    HOLDING = "holding"
    """It was sent, and is watched."""
    DONE = "done"


class StepProgress(NamedTuple):
    """A step of a run, as far as it has come. `halted_for`: the rates that paused the run during
    it, which whoever resumed it has seen."""

    step: int
    percent: float
    hold_seconds: float
    items: int
    released_at: datetime | None = None
    released_by: str | None = None
    ended_at: datetime | None = None
    passed_at: datetime | None = None
    halted_for: str = ""

    @property
    def state(self) -> RolloutState:
        if self.released_at is None:
            return RolloutState.WAITING
        if self.passed_at is not None:
            return RolloutState.DONE
        return RolloutState.SENDING if self.ended_at is None else RolloutState.HOLDING

    @property
    def hold_until(self) -> datetime | None:
        """None until everything of it has been sent. A step without items needs no hold."""
        if self.ended_at is None:
            return None
        return self.ended_at + timedelta(seconds=self.hold_seconds if self.items else 0)


def holding(steps: Sequence[StepProgress]) -> StepProgress | None:
    """The step that a run is held at, before the next one."""
    return next((step for step in steps[:-1] if step.state is RolloutState.HOLDING), None)
