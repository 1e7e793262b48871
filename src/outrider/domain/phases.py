"""Phases of a campaign: the trigger names people use and the lifecycle event each one records."""

from outrider.domain.states import PHASE_MACHINE, PhaseState

LIFECYCLE_EVENTS = {
    "start": "phase_started",
    "pause": "phase_paused",
    "resume": "phase_resumed",
    "complete": "phase_completed",
    "fail": "phase_failed",
    "rerun": "phase_started",
    "retry": "phase_started",
}


def transition(state: PhaseState, trigger: str) -> tuple[PhaseState, str]:
    """The state after the trigger, and the lifecycle event that must be written with it."""
    return PHASE_MACHINE.after(state, trigger), LIFECYCLE_EVENTS[trigger]
