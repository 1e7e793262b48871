"""Progress of running phases: which is due for a report, and writing that report."""

from datetime import datetime
from typing import NamedTuple

import msgspec
import structlog

from outrider.domain.ids import CampaignId, RunId
from outrider.domain.outbox import Accounting
from outrider.domain.phases import PROGRESS_EVENT
from outrider.domain.states import PhaseState
from outrider.kernel.transactions import delivery_accountings, phases, run_records
from outrider.kernel.transactions.snapshots import progress_percentage
from outrider.ports.store import Transaction, ask, ask_alone

log = structlog.get_logger()


class ProgressDue(NamedTuple):
    """A running phase, and its last progress report."""

    campaign_id: CampaignId
    phase: str
    run_id: RunId | None
    last: str | None


def claim(told_before: datetime, most: int, now: datetime) -> Transaction[list[ProgressDue]]:
    """The worker that claims a phase reports it; others leave it alone until it is due again."""
    rows = yield from ask_alone("claim_progress", told_before=told_before, most=most, now=now)
    return [ProgressDue(*row) for row in rows]


def accounting(run_id: RunId) -> Transaction[Accounting]:
    return (
        yield from delivery_accountings.accounting((yield from run_records.run_anywhere(run_id)))
    )


def report(
    due: ProgressDue, run_id: RunId, accounting: Accounting, events_kept: int, now: datetime
) -> Transaction[int]:
    """Write a progress event if anything has changed; returns how many were written."""
    payload: dict[str, object] = {
        "progressPercentage": progress_percentage(accounting),
        "accounting": accounting.as_whole_document(),
        "runId": run_id,
    }
    document = msgspec.json.encode(payload).decode()
    if document == due.last:
        return 0
    state, current_run = yield from phases.lock_phase(due.campaign_id, due.phase)
    if state != PhaseState.IN_PROGRESS or current_run != run_id:
        log.warning("progress_ignored", campaign_id=due.campaign_id, phase=due.phase, state=state)
        return 0
    of_phase = {"campaign_id": due.campaign_id, "phase": due.phase}
    sequence = yield from phases.append_event(
        due.campaign_id, PROGRESS_EVENT, due.phase, payload, now
    )
    yield from ask("save_progress", **of_phase, progress=document, now=now)
    yield from ask("prune_progress", **of_phase, before=sequence - events_kept)
    return 1
