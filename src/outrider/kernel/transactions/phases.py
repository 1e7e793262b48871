"""The one function that writes a phase's state, its lifecycle event and its sequence, together."""

from datetime import datetime

import msgspec

from outrider.domain import phases
from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId, RunId
from outrider.domain.states import PhaseState
from outrider.ports.store import Transaction, ask


def transition_phase(
    campaign_id: CampaignId,
    phase: str,
    trigger: str,
    now: datetime,
    *,
    run_id: RunId | None = None,
    payload: dict[str, object] | None = None,
) -> Transaction[int]:
    """Returns the sequence of the event. Raises InvalidTransition where the table says no."""
    found = yield from ask("lock_phase", campaign_id=campaign_id, phase=phase)
    if not found:
        raise NotFound(f"campaign {campaign_id} has no phase '{phase}'")
    state, current_run = found[0]
    after, event = phases.transition(PhaseState(state), trigger)
    yield from ask(
        "set_phase_state",
        campaign_id=campaign_id,
        phase=phase,
        state=after.value,
        run_id=run_id or current_run,
        now=now,
    )
    counted = yield from ask("next_sequence", campaign_id=campaign_id)
    sequence: int = counted[0][0]
    yield from ask(
        "insert_campaign_event",
        campaign_id=campaign_id,
        sequence=sequence,
        type=event,
        phase=phase,
        payload=msgspec.json.encode(payload or {}).decode(),
        now=now,
    )
    return sequence
