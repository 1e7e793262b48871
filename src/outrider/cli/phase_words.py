"""A phase's state in words: a stop is not a failure, and a scheduled phase is not in progress.

The API's states keep their names; only what is printed differs.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from outrider.cli import texts
from outrider.domain.campaigns import LAUNCH
from outrider.domain.phases import STOPPED
from outrider.domain.states import PhaseState, RunStatus

SCHEDULED = "scheduled"
SENT, DONE = "sent", "done"

_WHOLE = (PhaseState.PAUSED, PhaseState.IN_PROGRESS, PhaseState.FAILED)


def state_word(phase: Mapping[str, Any], now: datetime | None = None) -> str:
    """`phase` is a phase of a snapshot, or of a line of the list."""
    state = str(phase["state"])
    if state == PhaseState.FAILED and phase["reason"] == STOPPED:
        return STOPPED
    if state == PhaseState.IN_PROGRESS and _is_ahead(phase, now or datetime.now(UTC)):
        return SCHEDULED
    return state


def why(phase: Mapping[str, Any]) -> str | None:
    """What it waits for, or why it ended that way; empty if its state says everything."""
    if phase["waitsFor"]:
        return texts.PhaseWords.WAITS_FOR.format(waits_for=phase["waitsFor"])
    word = state_word(phase)
    if word == SCHEDULED:
        return texts.PhaseWords.FOR.format(scheduled_for=_minute(phase["scheduledFor"]))
    return None if word == STOPPED else phase["reason"]


def campaign_word(line: Mapping[str, Any]) -> str:
    """A row of the list: the phase that its state comes from provides the word."""
    state = line["state"]
    if state not in _WHOLE:
        return str(state)
    words = [state_word(phase) for phase in line["phases"] if phase["state"] == state]
    # A phase that failed without being stopped decides for all.
    return str(state) if not words or state in words else words[0]


def launch_word(line: Mapping[str, Any]) -> str | None:
    words = [state_word(phase) for phase in line["phases"] if phase["phase"] == LAUNCH]
    return words[0] if words else None


def next_control(snapshot: Mapping[str, Any]) -> tuple[str, str] | None:
    """The control that continues an idle campaign: the first phase that is not completed is
    retried, or started."""
    if snapshot["controlPhase"] is not None:
        return None
    for name in snapshot["phaseOrder"]:
        state = snapshot["phases"][name]["state"]
        if state != PhaseState.COMPLETED:
            return ("retry" if state == PhaseState.FAILED else "start"), name
    return None


def success_word(phase: str | None) -> str:
    """Only a launch sends; what other phases have processed is done."""
    return SENT if phase == LAUNCH else DONE


def run_word(run: Mapping[str, Any]) -> str:
    return STOPPED if run["stoppedAt"] else str(run["status"])


def _is_ahead(phase: Mapping[str, Any], now: datetime) -> bool:
    if phase["scheduledFor"] is None or phase["runStatus"] != RunStatus.QUEUED:
        return False
    return datetime.fromisoformat(phase["scheduledFor"]) > now


def _minute(moment: str) -> str:
    return f"{datetime.fromisoformat(moment).astimezone(UTC):%Y-%m-%d %H:%M} UTC"
