"""Repairs where a phase and its run disagree: which of the two follows the other, and how.

They are written together, so only a manual change in the database makes them disagree. A live run
follows its phase; a phase follows a run that can no longer move.
"""

from dataclasses import dataclass

from outrider.domain.phases import STOPPED, Action
from outrider.domain.states import TERMINAL_RUNS, PhaseState, RunStatus

RUN_MISSING = "run_missing"
RUN_NOT_RELEASED = "run_not_released"
CHANGED_IN_DATABASE = "changed_in_database"

IN_FLIGHT = frozenset({PhaseState.IN_PROGRESS, PhaseState.PAUSED})

_ENDED = {
    RunStatus.COMPLETED: PhaseState.COMPLETED,
    RunStatus.PARTIAL: PhaseState.COMPLETED,
    RunStatus.FAILED: PhaseState.FAILED,
}


@dataclass(frozen=True, slots=True)
class RunBeside:
    """The current run of a phase. `some_paused` and `some_going` are about its unfinished jobs."""

    status: RunStatus
    is_stopped: bool
    is_released: bool
    some_paused: bool
    some_going: bool

    @property
    def has_ended(self) -> bool:
        return self.status in TERMINAL_RUNS

    @property
    def can_move(self) -> bool:
        return not self.has_ended and not self.is_stopped


@dataclass(frozen=True, slots=True)
class PhaseFollows:
    """Put the phase into the state its run implies."""

    state: PhaseState
    reason: str


@dataclass(frozen=True, slots=True)
class RunFollows:
    """Pause, resume or stop the run, as its phase says."""

    action: Action


def repair(state: PhaseState, run: RunBeside | None) -> PhaseFollows | RunFollows | None:
    """None: they agree, or neither is active."""
    if run is None:
        return PhaseFollows(PhaseState.FAILED, RUN_MISSING) if state in IN_FLIGHT else None
    if run.can_move:
        return _of_moving_run(state, run)
    if state not in IN_FLIGHT:
        return None
    if run.is_stopped:
        return PhaseFollows(PhaseState.FAILED, STOPPED)
    return PhaseFollows(_ENDED[run.status], f"run_{run.status.value}")


def _of_moving_run(state: PhaseState, run: RunBeside) -> PhaseFollows | RunFollows | None:
    if state not in IN_FLIGHT:
        return RunFollows(Action.STOP)
    if not run.is_released:
        # Its jobs are held until it is released; there is nothing to pause.
        paused = state is PhaseState.PAUSED
        return PhaseFollows(PhaseState.IN_PROGRESS, RUN_NOT_RELEASED) if paused else None
    if state is PhaseState.PAUSED:
        return RunFollows(Action.PAUSE) if run.some_going else None
    return RunFollows(Action.RESUME) if run.some_paused else None
