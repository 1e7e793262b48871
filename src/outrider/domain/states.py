"""The closed sets of states, and every state machine as a table of data.

Nothing else in Outrider decides whether a state may follow another. The diagrams in
docs/reference/state-machines.md are generated from these tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

from outrider.domain.errors import InvalidTransition


class Channel(StrEnum):
    EMAIL = "email"
    SMS = "sms"
    PUSH = "push"
    WHATSAPP = "whatsapp"
    VOICE = "voice"
    SOCIAL = "social"


class ItemStatus(StrEnum):
    QUEUED = "queued"
    SENT = "sent"
    CALLED = "called"
    POSTED = "posted"
    FAILED = "failed"
    SKIPPED = "skipped"


class IntentStatus(StrEnum):
    """How the contract judges an item, beside what happened at the provider (`ItemStatus`)."""

    PENDING = "PENDING"
    ACCEPTED = "ACCEPTED"
    REJECTED = "REJECTED"
    EXHAUSTED = "EXHAUSTED"


class JobStatus(StrEnum):
    QUEUED = "queued"
    LOCKED = "locked"
    COMPLETED = "completed"
    FAILED = "failed"
    DEAD = "dead"


class JobOutcome(StrEnum):
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"


class RunStatus(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    PARTIAL = "partial"
    FAILED = "failed"


class PhaseState(StrEnum):
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"


SUCCESSES = frozenset({ItemStatus.SENT, ItemStatus.CALLED, ItemStatus.POSTED})
TERMINAL_ITEMS = SUCCESSES | {ItemStatus.FAILED, ItemStatus.SKIPPED}
FINISHED_JOBS = frozenset({JobStatus.COMPLETED, JobStatus.DEAD})
TERMINAL_RUNS = frozenset({RunStatus.COMPLETED, RunStatus.PARTIAL, RunStatus.FAILED})


_SUCCESS_STATUS = {Channel.VOICE: ItemStatus.CALLED, Channel.SOCIAL: ItemStatus.POSTED}


def success_status(channel: Channel) -> ItemStatus:
    """The status of an item that the provider accepted on this channel."""
    return _SUCCESS_STATUS.get(channel, ItemStatus.SENT)


State = TypeVar("State", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class StateMachine(Generic[State]):
    """A table of (state, trigger) → state; anything else is refused."""

    name: str
    initial: State
    table: Mapping[tuple[State, str], State]

    def after(self, state: State, trigger: str) -> State:
        try:
            return self.table[state, trigger]
        except KeyError:
            raise InvalidTransition(self.name, state.value, trigger) from None

    def allows(self, state: State, trigger: str) -> bool:
        return (state, trigger) in self.table


ITEM_MACHINE = StateMachine(
    "item",
    ItemStatus.QUEUED,
    {
        (ItemStatus.QUEUED, "send"): ItemStatus.SENT,
        (ItemStatus.QUEUED, "call"): ItemStatus.CALLED,
        (ItemStatus.QUEUED, "post"): ItemStatus.POSTED,
        (ItemStatus.QUEUED, "fail"): ItemStatus.FAILED,
        (ItemStatus.QUEUED, "skip"): ItemStatus.SKIPPED,
    },
)

JOB_MACHINE = StateMachine(
    "job",
    JobStatus.QUEUED,
    {
        (JobStatus.QUEUED, "claim"): JobStatus.LOCKED,
        (JobStatus.LOCKED, "complete"): JobStatus.COMPLETED,
        (JobStatus.LOCKED, "fail"): JobStatus.FAILED,
        (JobStatus.LOCKED, "park"): JobStatus.QUEUED,
        (JobStatus.LOCKED, "rescue"): JobStatus.QUEUED,
        (JobStatus.FAILED, "retry"): JobStatus.QUEUED,
        (JobStatus.FAILED, "bury"): JobStatus.DEAD,
    },
)

RUN_MACHINE = StateMachine(
    "run",
    RunStatus.QUEUED,
    {
        (RunStatus.QUEUED, "start"): RunStatus.RUNNING,
        (RunStatus.RUNNING, "complete"): RunStatus.COMPLETED,
        (RunStatus.RUNNING, "end_partially"): RunStatus.PARTIAL,
        (RunStatus.RUNNING, "fail"): RunStatus.FAILED,
    },
)

PHASE_MACHINE = StateMachine(
    "phase",
    PhaseState.NOT_STARTED,
    {
        (PhaseState.NOT_STARTED, "start"): PhaseState.IN_PROGRESS,
        (PhaseState.IN_PROGRESS, "pause"): PhaseState.PAUSED,
        (PhaseState.IN_PROGRESS, "complete"): PhaseState.COMPLETED,
        (PhaseState.IN_PROGRESS, "fail"): PhaseState.FAILED,
        (PhaseState.PAUSED, "resume"): PhaseState.IN_PROGRESS,
        (PhaseState.COMPLETED, "rerun"): PhaseState.IN_PROGRESS,
        (PhaseState.FAILED, "retry"): PhaseState.IN_PROGRESS,
    },
)

MACHINES: tuple[StateMachine[Any], ...] = (
    PHASE_MACHINE,
    RUN_MACHINE,
    JOB_MACHINE,
    ITEM_MACHINE,
)
