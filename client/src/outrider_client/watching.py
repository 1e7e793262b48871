"""The rules of a campaign's event stream, without any networking.

A snapshot is the baseline. Events up to its sequence are old, and a reconnect begins with a new
snapshot. Progress counts only for a phase that is in progress.
"""

from dataclasses import dataclass, field

import msgspec

from outrider_client.models import CampaignStatus, EventEnvelope, PhaseState

SILENT_SECONDS = 45.0
"""A stream says something every 15 seconds; one that is silent for longer is broken."""
SNAPSHOT_REQUIRED = "snapshot_required"
PROGRESS = "campaign_progress"
STATE_AFTER = {
    "phase_started": PhaseState.IN_PROGRESS,
    "phase_resumed": PhaseState.IN_PROGRESS,
    "phase_paused": PhaseState.PAUSED,
    "phase_completed": PhaseState.COMPLETED,
    "phase_failed": PhaseState.FAILED,
}


@dataclass
class StreamRules:
    sequence: int = 0
    states: dict[str, str] = field(default_factory=dict)

    def begin(self, status: CampaignStatus) -> None:
        self.sequence = status.last_sequence
        self.states = {name: phase.state for name, phase in status.phases.items()}

    def accepts(self, event: EventEnvelope) -> bool:
        """Whether the event is news; it is then part of the baseline."""
        if event.sequence <= self.sequence:
            return False
        self.sequence = event.sequence
        if event.phase is None:
            return True
        if event.type == PROGRESS:
            return self.states.get(event.phase) == PhaseState.IN_PROGRESS
        if state := STATE_AFTER.get(event.type):
            self.states[event.phase] = state
        return True


@dataclass
class EventLines:
    """Reads server-sent events line by line."""

    _data: list[str] = field(default_factory=list)

    def feed(self, line: bytes) -> EventEnvelope | None:
        """The event that this line ends, if it ends one."""
        text = line.decode(errors="replace").rstrip("\r\n")
        if text:
            name, _, value = text.partition(":")
            if name == "data":
                self._data.append(value.removeprefix(" "))
            return None
        data, self._data = "\n".join(self._data), []
        return msgspec.json.decode(data, type=EventEnvelope) if data else None
