"""A client's view of a campaign, by contract 003's rules: snapshots win, events must be newer.

Snapshots and events go in, in any order; what a screen may show comes out. It does no networking.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from outrider.domain.phases import LIFECYCLE_EVENTS, PROGRESS_EVENT, control_phase
from outrider.domain.states import PHASE_MACHINE, PhaseState

STATUS_SET_BY = {
    event: after
    for (_, trigger), after in PHASE_MACHINE.table.items()
    for event in (LIFECYCLE_EVENTS[trigger],)
}
"""The state each lifecycle event brings a phase into."""


@dataclass
class CampaignView:
    states: dict[str, PhaseState] = field(default_factory=dict)
    progress: dict[str, float] = field(default_factory=dict)
    last_applied_sequence: int = 0

    def apply_snapshot(self, snapshot: Mapping[str, Any]) -> None:
        """The snapshot is the truth: it overwrites everything applied before."""
        phases = snapshot["phases"]
        self.states = {name: PhaseState(each["state"]) for name, each in phases.items()}
        self.progress = {name: each["progressPercentage"] for name, each in phases.items()}
        self.last_applied_sequence = snapshot["lastSequence"]

    def apply_event(self, event: Mapping[str, Any]) -> bool:
        """Whether the event changed anything that may be shown; a stale one never does."""
        if event["sequence"] <= self.last_applied_sequence:
            return False
        self.last_applied_sequence = event["sequence"]
        phase = event["phase"]
        if event["type"] == PROGRESS_EVENT:
            if self.states.get(phase) is not PhaseState.IN_PROGRESS:
                return False
            self.progress[phase] = event["payload"]["progressPercentage"]
            return True
        state = STATUS_SET_BY.get(event["type"])
        if state is None:
            return False
        self.states[phase] = state
        return True

    @property
    def control_phase(self) -> str | None:
        return control_phase(self.states.items())
