"""The one function that writes a phase's state, its lifecycle event and its sequence, together.

A database trigger records every state change that came without its event. The audited exception,
`transition_phase_direct`, repairs a phase that its run disagrees with.
"""

from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain import phases
from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId, RunId
from outrider.domain.phases import BEGINNINGS
from outrider.domain.states import PhaseState
from outrider.ports.store import Transaction, ask

ENDINGS = frozenset({PhaseState.COMPLETED, PhaseState.FAILED})


class CampaignEvent(NamedTuple):
    sequence: int
    type: str
    phase: str
    payload: str
    created_at: datetime


class LockedPhase(NamedTuple):
    phase: str
    state: str
    run_id: RunId | None
    last_sequence: int


def lock_phase(campaign_id: CampaignId, phase: str) -> Transaction[tuple[str, RunId | None]]:
    """Its state and its run, locked until the commit."""
    found = yield from ask("lock_phase", campaign_id=campaign_id, phase=phase)
    if not found:
        raise NotFound(f"campaign {campaign_id} has no phase '{phase}'")
    state, run_id = found[0]
    return state, run_id


def transition_phase(
    campaign_id: CampaignId,
    phase: str,
    trigger: str,
    now: datetime,
    *,
    run_id: RunId | None = None,
    reason: str | None = None,
    payload: dict[str, object] | None = None,
) -> Transaction[int]:
    """Returns the sequence of the event. Raises InvalidTransition if the table does not allow
    it."""
    state, current_run = yield from lock_phase(campaign_id, phase)
    after, event = phases.transition(PhaseState(state), trigger)
    event_fields = {**(payload or {}), **({"reason": reason} if reason else {})}
    sequence = yield from append_event(campaign_id, event, phase, event_fields, now)
    yield from ask(
        "set_phase_state",
        campaign_id=campaign_id,
        phase=phase,
        state=after.value,
        run_id=run_id or current_run,
        sequence=sequence,
        reason=reason,
        begins=trigger in BEGINNINGS,
        ends=after in ENDINGS,
        now=now,
    )
    return sequence


def transition_phase_direct(
    campaign_id: CampaignId,
    phase: str,
    state: PhaseState,
    caller: str,
    reason: str,
    now: datetime,
) -> Transaction[int]:
    """Set a state that the state machine does not allow. The database records it as a bypass."""
    event = phases.event_of(state)
    assert event is not None, state
    yield from ask(
        "set_phase_direct",
        campaign_id=campaign_id,
        phase=phase,
        state=state.value,
        caller=caller,
        reason=reason,
        ends=state in ENDINGS,
        now=now,
    )
    payload = {"repaired": True, "reason": reason}
    sequence = yield from append_event(campaign_id, event, phase, payload, now)
    yield from ask(
        "end_bypass", campaign_id=campaign_id, phase=phase, sequence=sequence, reason=reason
    )
    return sequence


def put_back(campaign_id: CampaignId, phase: str, caller: str, now: datetime) -> Transaction[int]:
    """Its run continues, so the phase is in progress again, whatever state was written over
    that."""
    state = PhaseState.IN_PROGRESS
    return (
        yield from transition_phase_direct(campaign_id, phase, state, caller, "run_goes_on", now)
    )


def append_event(
    campaign_id: CampaignId, event: str, phase: str, payload: dict[str, object], now: datetime
) -> Transaction[int]:
    """Take the campaign's next sequence and write the event under it."""
    counted = yield from ask("next_sequence", campaign_id=campaign_id)
    sequence: int = counted[0][0]
    yield from ask(
        "insert_campaign_event",
        campaign_id=campaign_id,
        sequence=sequence,
        type=event,
        phase=phase,
        payload=msgspec.json.encode(payload).decode(),
        now=now,
    )
    return sequence


def lock_phases(campaign_id: CampaignId) -> Transaction[dict[str, LockedPhase]]:
    """All phases of a campaign in its order, by name."""
    rows = yield from ask("lock_phases", campaign_id=campaign_id)
    return {row[0]: LockedPhase(*row) for row in rows}


class ControlledPhase(NamedTuple):
    """`waits_for`: `approval` or `room`, while its run is held."""

    phase: str
    state: str
    run_id: RunId | None
    last_sequence: int
    waits_for: str | None


def controlled_phase(campaign_id: CampaignId, phase: str) -> Transaction[ControlledPhase]:
    rows = yield from ask("controlled_phase", campaign_id=campaign_id, phase=phase)
    return ControlledPhase(*rows[0])


def running_runs(campaign_id: CampaignId) -> Transaction[dict[RunId, str]]:
    """The phases of the runs that have not been ended or stopped."""
    rows = yield from ask("running_runs", campaign_id=campaign_id)
    return {RunId(run_id): phase for run_id, phase in sorted(map(tuple, rows))}


def events_after(
    campaign_id: CampaignId, after: int, most: int
) -> Transaction[list[CampaignEvent]]:
    rows = yield from ask("campaign_events_after", campaign_id=campaign_id, after=after, most=most)
    return [CampaignEvent(*row) for row in rows]


def sequences_of(campaign_ids: list[CampaignId]) -> Transaction[dict[CampaignId, int]]:
    rows = yield from ask("campaign_sequences", {"id": campaign_ids})
    return {CampaignId(campaign_id): sequence for campaign_id, sequence in rows}
