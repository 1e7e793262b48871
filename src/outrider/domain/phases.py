"""Phases of a campaign: which phase a control targets, and what each control asks of it.

A state and an action go in; the triggers to fire come out, none where there is nothing to do.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from outrider.domain.errors import (
    ExpectedStateMismatch,
    InvalidPhaseTransition,
    PreconditionFailed,
)
from outrider.domain.states import PHASE_MACHINE, PhaseState

AUDIENCE_IMPORT = "audience_import"

LIFECYCLE_EVENTS = {
    "start": "phase_started",
    "pause": "phase_paused",
    "resume": "phase_resumed",
    "complete": "phase_completed",
    "fail": "phase_failed",
    "rerun": "phase_started",
    "retry": "phase_started",
}

_STATE_AFTER = {
    "phase_started": PhaseState.IN_PROGRESS,
    "phase_resumed": PhaseState.IN_PROGRESS,
    "phase_paused": PhaseState.PAUSED,
    "phase_completed": PhaseState.COMPLETED,
    "phase_failed": PhaseState.FAILED,
}

PROGRESS_EVENT = "campaign_progress"
"""Reports progress, never a state."""

BEGINNINGS = frozenset({"start", "rerun", "retry"})


class Action(StrEnum):
    """What people ask of a phase. Only its run completes it; asking for completion is refused."""

    START = "start"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    RERUN = "rerun"
    RETRY = "retry"
    COMPLETE = "complete"


AIMS = {
    Action.START: PhaseState.IN_PROGRESS,
    Action.PAUSE: PhaseState.PAUSED,
    Action.RESUME: PhaseState.IN_PROGRESS,
    Action.STOP: PhaseState.FAILED,
    Action.RERUN: PhaseState.IN_PROGRESS,
    Action.RETRY: PhaseState.IN_PROGRESS,
    Action.COMPLETE: PhaseState.COMPLETED,
}

STOPPED = "stopped"
"""Failure reason of a phase that was stopped."""

PUT_BACK = "put_back"
"""Outside the state machine: a phase whose run is active is in progress, whatever its row says."""

_STOPPING = {PhaseState.IN_PROGRESS: ("fail",), PhaseState.PAUSED: ("resume", "fail")}


def transition(state: PhaseState, trigger: str) -> tuple[PhaseState, str]:
    """The state after the trigger, and the lifecycle event that must be written with it."""
    return PHASE_MACHINE.after(state, trigger), LIFECYCLE_EVENTS[trigger]


def state_after(event: str | None) -> PhaseState | None:
    """The state that a lifecycle event leaves its phase in; None for any other event."""
    return _STATE_AFTER.get(event or "")


def event_of(state: PhaseState) -> str | None:
    """The event for a state reached without a transition; the initial state has none."""
    return {after: event for event, after in _STATE_AFTER.items()}.get(state)


def control_phase(states: Iterable[tuple[str, PhaseState]]) -> str | None:
    """The phase that controls target: the paused one, else the one in progress."""
    first: dict[PhaseState, str] = {}
    for phase, state in states:
        first.setdefault(state, phase)
    return first.get(PhaseState.PAUSED) or first.get(PhaseState.IN_PROGRESS)


def decide(
    state: PhaseState, action: Action, expected: PhaseState | None, *, run_goes_on: bool = False
) -> tuple[str, ...]:
    """The triggers that carry out the action; none if the phase is already in that state.

    `run_goes_on`: one of its runs is still active. A stop halts that run whatever the phase's row
    says.
    """
    if expected is not None and expected is not state:
        raise ExpectedStateMismatch(state.value, expected.value, action.value)
    if action is Action.STOP and run_goes_on and state not in _STOPPING:
        return (PUT_BACK, "fail")
    if state is AIMS[action]:
        return ()
    if action is Action.STOP:
        triggers = _STOPPING.get(state, ())
    else:
        triggers = (action.value,) if PHASE_MACHINE.allows(state, action.value) else ()
    if not triggers:
        aim = AIMS[action]
        raise InvalidPhaseTransition(state.value, aim.value, action.value, _way(state, aim))
    if action is Action.COMPLETE:
        raise PreconditionFailed(action.value, "run_not_finished", None, state.value)
    return triggers


def _way(state: PhaseState, aim: PhaseState) -> str | None:
    """The control that leads there, so that a refusal names it instead of an unknown transition."""
    for action, aimed in AIMS.items():
        if aimed is aim and PHASE_MACHINE.allows(state, action.value):
            return action.value
    return None


def check_free_to_begin(phase: str, action: Action, states: Mapping[str, PhaseState]) -> None:
    """One phase at a time, in the campaign's order: `states` are in that order."""
    own = states[phase].value
    for other, state in states.items():
        if other == phase:
            continue
        if state is PhaseState.IN_PROGRESS:
            raise PreconditionFailed(action.value, "another_phase_in_progress", other, own)
        if state is PhaseState.PAUSED:
            raise PreconditionFailed(action.value, "another_phase_paused", other, own)
    for other, state in states.items():
        if other == phase:
            return
        if state is not PhaseState.COMPLETED:
            raise PreconditionFailed(action.value, "predecessor_not_completed", other, own)
