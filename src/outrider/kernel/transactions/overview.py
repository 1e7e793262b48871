"""A list of campaigns with the state of each, in a few statements however long it is.

The result of an ended run is in the event that ended it, and a phase in progress has a recent
progress report; only the rest is counted.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.campaign_states import CampaignState, campaign_state
from outrider.domain.campaigns import LAUNCH
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.outbox import Accounting, total
from outrider.domain.phases import control_phase
from outrider.domain.states import PhaseState
from outrider.kernel.transactions import accountings
from outrider.kernel.transactions.delivery_accountings import with_deliveries
from outrider.kernel.transactions.launch_outcomes import earlier_runs
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.reported_accountings import final_accounting, reported_accounting
from outrider.kernel.transactions.snapshots import progress_percentage
from outrider.limits.kernel import Limits
from outrider.ports.store import Rows, Transaction, ask


class PhaseLine(NamedTuple):
    campaign_id: CampaignId
    phase: str
    state: PhaseState
    run_id: RunId | None
    started_at: datetime | None
    progress: str | None
    """Its last progress report."""
    run_status: str | None
    intended: int | None
    ending: str | None
    """The payload of the event that ended its run."""
    reason: str | None = None
    scheduled_for: datetime | None = None
    retry_of: RunId | None = None


class CampaignOverview(NamedTuple):
    id: CampaignId
    name: str
    audience_size: int
    last_sequence: int
    created_at: datetime
    phases: Sequence[PhaseLine] = ()
    shown: PhaseLine | None = None
    """The phase whose numbers are shown: the control phase, else the launch, else the last."""
    accounting: Accounting | None = None
    outcome: Accounting | None = None
    """Over all runs of a launch that was retried; otherwise the same."""

    @property
    def state(self) -> CampaignState:
        return campaign_state([line.state for line in self.phases])

    @property
    def control_phase(self) -> str | None:
        return control_phase((line.phase, line.state) for line in self.phases)

    @property
    def progress_percentage(self) -> float:
        return progress_percentage(self.accounting) if self.accounting else 0.0


class OverviewPage(NamedTuple):
    """`next` is where the list continues, even if nothing has matched so far."""

    campaigns: list[CampaignOverview]
    next: str | None


def overview_page(
    scope: Scope,
    before: str,
    most: int,
    *,
    state: CampaignState | None = None,
    words: str | None = None,
    looked_through: int = Limits.campaigns_looked_through,
) -> Transaction[OverviewPage]:
    """Newest first. With a filter, at most `looked_through` campaigns are examined."""
    place = {**scope._asdict(), "before": before}
    floor: Rows = []
    if state is not None or words is not None:
        floor = yield from ask("campaigns_floor", **place, scanned=looked_through)
    rows = yield from ask(
        "campaigns_overview",
        **place,
        floor=floor[0][0] if floor else FIRST,
        state=state.value if state else None,
        words=words.lower() if words else None,
        most=most,
    )
    found = [CampaignOverview(*row) for row in rows]
    following = floor[0][0] if floor else None
    if len(found) == most:
        following = found[-1].id
    return OverviewPage((yield from _with_phases(found)), following)


def _with_phases(found: list[CampaignOverview]) -> Transaction[list[CampaignOverview]]:
    if not found:
        return []
    rows = yield from ask("phases_of_campaigns", {"id": [each.id for each in found]})
    phases: dict[CampaignId, list[PhaseLine]] = {}
    for row in rows:
        line = PhaseLine(*row)
        phases.setdefault(line.campaign_id, []).append(line._replace(state=PhaseState(line.state)))
    shown = {each.id: _shown(phases.get(each.id, [])) for each in found}
    lines = [line for line in shown.values() if line is not None]
    known = {
        line.run_id: reported
        for line in lines
        if line.run_id and (reported := known_accounting(line))
    }
    known |= yield from accountings.accountings(
        {
            line.run_id: line.intended or 0
            for line in lines
            if line.run_id and line.run_id not in known
        }
    )
    # The reported accounting of a launch in progress includes receipts; others may still get some.
    known |= yield from with_deliveries(
        {
            line.run_id: known[line.run_id]
            for line in lines
            if line.run_id and line.phase == LAUNCH and known[line.run_id].delivery is None
        }
    )
    earlier = yield from earlier_runs(
        {
            line.run_id: line.campaign_id
            for line in lines
            if line.run_id and line.retry_of and line.phase == LAUNCH
        }
    )
    whole = {run_id: total([each.settled, known[run_id]]) for run_id, each in earlier.items()}
    return [
        each._replace(
            phases=phases.get(each.id, []),
            shown=(chosen := shown[each.id]),
            accounting=(counted := known.get(chosen.run_id) if chosen and chosen.run_id else None),
            outcome=whole.get(chosen.run_id, counted) if chosen and chosen.run_id else None,
        )
        for each in found
    ]


def _shown(lines: Sequence[PhaseLine]) -> PhaseLine | None:
    ran = {line.phase: line for line in lines if line.run_id is not None}
    in_control = control_phase((line.phase, line.state) for line in lines)
    last = max(ran, key=lambda phase: _begun(ran[phase]), default="")
    return ran.get(in_control or "") or ran.get(LAUNCH) or ran.get(last)


def _begun(line: PhaseLine) -> float:
    return line.started_at.timestamp() if line.started_at else 0.0


def known_accounting(line: PhaseLine) -> Accounting | None:
    """What is known without counting; None if it has to be counted."""
    if line.ending is not None:
        return final_accounting(line.ending)
    if line.progress is None or line.state is not PhaseState.IN_PROGRESS:
        # Calls in progress still end during a pause, and are not reported.
        return None
    document = msgspec.json.decode(line.progress)
    latest = reported_accounting(document) if document.get("runId") == line.run_id else None
    if latest is not None and latest.delivery is None and line.phase == LAUNCH:
        # A worker of an earlier release reported it: receipts counted now may exceed what it sent.
        return None
    return latest
