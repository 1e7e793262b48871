"""The state of a campaign as a whole, derived from the states of its phases."""

from collections.abc import Collection
from enum import StrEnum

from outrider.domain.states import PhaseState


class CampaignState(StrEnum):
    NOT_STARTED = "not_started"
    IN_PROGRESS = "in_progress"
    PAUSED = "paused"
    READY = "ready"
    """Some phases are completed, and the next one can be started."""
    COMPLETED = "completed"
    FAILED = "failed"


_FIRST = {
    PhaseState.PAUSED: CampaignState.PAUSED,
    PhaseState.IN_PROGRESS: CampaignState.IN_PROGRESS,
    PhaseState.FAILED: CampaignState.FAILED,
}
"""One phase in such a state decides for the campaign; the first of these wins."""


def campaign_state(states: Collection[PhaseState]) -> CampaignState:
    for state, whole in _FIRST.items():
        if state in states:
            return whole
    match set(states):
        case found if found == {PhaseState.COMPLETED}:
            return CampaignState.COMPLETED
        case found if found == {PhaseState.NOT_STARTED}:
            return CampaignState.NOT_STARTED
        case _:
            return CampaignState.READY
