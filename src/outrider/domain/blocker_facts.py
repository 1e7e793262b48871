"""What is known of something that may not be moving, and the answer why it is not.

Facts are read by the kernel; `blockers.py` decides about them, `blocker_words.py` has the words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from outrider.domain.evidence import Settles
from outrider.domain.rollouts import StepProgress
from outrider.domain.screen_policies import WaitsFor
from outrider.domain.targets import DoorState
from outrider.domain.times import rfc3339


class BlockerCode(StrEnum):
    SCHEDULED = "SCHEDULED"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    AWAITING_ROOM = "AWAITING_ROOM"
    PAUSED = "PAUSED"
    QUIET_HOURS = "QUIET_HOURS"
    TARGET_SHAPED = "TARGET_SHAPED"
    TARGET_THROTTLED = "TARGET_THROTTLED"
    TARGET_DOWN = "TARGET_DOWN"
    TARGET_PAUSED = "TARGET_PAUSED"
    NO_WORKER = "NO_WORKER"
    DATABASE_DOWN = "DATABASE_DOWN"
    IN_DOUBT = "IN_DOUBT"
    DOUBTS_SETTLING = "DOUBTS_SETTLING"
    ENGINE_DOWN = "ENGINE_DOWN"
    DATABASE_RESTORED = "DATABASE_RESTORED"
    ROLLOUT_HOLD = "ROLLOUT_HOLD"
    AWAITING_WINNER = "AWAITING_WINNER"


FAULTS = frozenset(
    {
        BlockerCode.TARGET_THROTTLED,
        BlockerCode.TARGET_DOWN,
        BlockerCode.NO_WORKER,
        BlockerCode.DATABASE_DOWN,
        BlockerCode.ENGINE_DOWN,
        BlockerCode.DATABASE_RESTORED,
    }
)
"""What nobody decided: a run that waits for one of these is stalled."""


@dataclass(frozen=True, slots=True)
class Blocker:
    code: BlockerCode
    since: datetime
    message: str
    hint: str
    submission_target: str | None = None

    def as_document(self) -> dict[str, object]:
        return {
            "code": self.code.value,
            "since": rfc3339(self.since),
            "message": self.message,
            "hint": self.hint,
            "submissionTarget": self.submission_target,
        }


@dataclass(frozen=True, slots=True)
class ClosedDoor:
    """`held`: the provider refuses us or our set-up, so that somebody has to change something."""

    state: DoorState
    since: datetime
    opens_at: datetime | None
    reason: str | None
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class PausedTarget:
    paused_by: str
    paused_at: datetime


@dataclass(frozen=True, slots=True)
class SilentHolders:
    """Jobs whose worker has not reported for a while: it is frozen, cut off or dead."""

    jobs: int
    worker: str
    since: datetime
    lease_ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobsAtTarget:
    """The unfinished jobs of a run for one target at one URL, or a lane.

    `held` jobs are with workers that report; `due` ones could be taken, the first of them since
    `due_at`; `next_at` is when the next one is due; `parked` ones wait for a verdict.
    """

    submission_target: str
    gateway_url: str | None = None
    """None if the reader may not see it."""
    held: int = 0
    due: int = 0
    due_at: datetime | None = None
    next_at: datetime | None = None
    parked: int = 0
    silent: SilentHolders | None = None
    door: ClosedDoor | None = None
    paused: PausedTarget | None = None
    is_elsewhere: bool = False
    registry_url: str | None = None
    """If the registry has another URL for the target now; None if the reader may not see it."""
    takers: int = 0
    """Live workers that take jobs for this target."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """What is left to people, since when, and how many more doubts evidence will settle: since when
    the first of them waits, and when it is looked into next."""

    items: int
    since: datetime | None = None
    settling: int = 0
    settling_since: datetime | None = None
    next_check_at: datetime | None = None
    by_receipt: int = 0
    by_key: int = 0
    by_look_up: int = 0


@dataclass(frozen=True, slots=True)
class HeldByPolicy:
    """Recipients who wait for a policy: for which, since when, and until when the first does."""

    waits_for: WaitsFor
    items: int
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all runs share: the workers, and whether the engine answers."""

    workers: int
    worker_seen_at: datetime | None = None
    engine_down_since: datetime | None = None
    quarantined_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunFacts:
    id: str
    is_finished: bool
    waits_for: str | None
    """`approval` or `room`, for a run that has not been admitted yet."""
    created_at: datetime
    scheduled_for: datetime
    paused_at: datetime | None
    phase: str
    campaign_id: str
    jobs: Sequence[JobsAtTarget] = ()
    doubts: Doubts | None = None
    held: Sequence[HeldByPolicy] = ()
    rollout: Sequence[StepProgress] = ()
    without_winner: Sequence[str] = ()
    """Messages whose variants were tested, and none was chosen yet."""


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """A message that has not ended, of a lane. `waits_until`: what it says itself that it waits
    for, and until when."""

    outbox_id: str
    submission_target: str
    updated_at: datetime
    doubted_at: datetime | None = None
    waits_for: str | None = None
    waits_until: datetime | None = None
    settles: Settles | None = None
    """In doubt: the evidence that is awaited; None if nobody has looked into it yet."""
    next_check_at: datetime | None = None
