"""Reading runs: one, those of a campaign, and how one ended."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId, RunId, Scope, is_uuid
from outrider.domain.run_events import RunEventType
from outrider.domain.runs import run_status
from outrider.domain.states import JobOutcome
from outrider.ports.store import Rows, Transaction, ask

TERMINAL_RUN_EVENTS = frozenset(
    {RunEventType.RUN_COMPLETED, RunEventType.RUN_FAILED, RunEventType.RUN_CANCELLED}
)


class RunRecord(NamedTuple):
    id: RunId
    campaign_id: CampaignId
    phase: str
    channel: str
    status: str
    intended: int
    scheduled_for: datetime
    retry_of: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    stopped_at: datetime | None
    waits_for: str | None
    """`approval` or `room`, for a run that has not been admitted yet."""


def run(scope: Scope, run_id: RunId) -> Transaction[RunRecord]:
    found: Rows = []
    if is_uuid(run_id):
        found = yield from ask("run_by_id", **scope._asdict(), run_id=run_id)
    if not found:
        raise NotFound(
            f"there is no run {run_id}", hint="`outrider campaign status ID` shows a campaign's run"
        )
    return RunRecord(*found[0])


def runs_of(campaign_id: CampaignId) -> Transaction[list[RunRecord]]:
    rows = yield from ask("runs_of_campaign", campaign_id=campaign_id)
    return [RunRecord(*row) for row in rows]


def run_anywhere(run_id: RunId) -> Transaction[RunRecord]:
    """For the kernel's own loops, which serve every tenant."""
    rows = yield from ask("run_by_id_anywhere", run_id=run_id)
    return RunRecord(*rows[0])


def find_anywhere(run_id: RunId) -> Transaction[RunRecord | None]:
    rows = yield from ask("run_by_id_anywhere", run_id=run_id)
    return RunRecord(*rows[0]) if rows else None


class LockedRun(NamedTuple):
    """The fields of a run that decisions depend on, locked until the commit."""

    status: str
    campaign_id: CampaignId
    phase: str
    stopped_at: datetime | None
    plan_version: str
    approved_at: datetime | None


def find_locked(run_id: RunId) -> Transaction[LockedRun | None]:
    """None: it was deleted manually from the database."""
    rows = yield from ask("lock_run", run_id=run_id)
    return LockedRun(*rows[0]) if rows else None


def lock(run_id: RunId) -> Transaction[LockedRun]:
    locked = yield from find_locked(run_id)
    if locked is None:
        raise NotFound(f"there is no run {run_id}")
    return locked


def left_in_doubt(campaign_id: CampaignId) -> Transaction[int]:
    """How many items earlier launches left in doubt, which the later ones do not count."""
    rows = yield from ask("count_left_in_doubt", campaign_id=campaign_id)
    count: int = rows[0][0]
    return count


def runs_page(campaign_id: CampaignId, before: str, most: int) -> Transaction[list[RunRecord]]:
    """Newest first."""
    rows = yield from ask("runs_page", campaign_id=campaign_id, before=before, most=most)
    return [RunRecord(*row) for row in rows]


class RunEnding(NamedTuple):
    """How a run ended, by sources other than its row: its log and its jobs."""

    logged: str | None
    """The status set by its last event; None for a run that has not ended."""
    outcomes: list[str | None]
    is_adopted: bool
    """It ended before runs had a log, so its last event is no evidence."""

    def agrees_with(self, status: str) -> bool:
        if None in self.outcomes or not (self.is_adopted or self.logged == status):
            return False
        computed = run_status([JobOutcome(each) for each in self.outcomes if each is not None])
        return computed.value == status


def run_ending(run_id: RunId) -> Transaction[RunEnding]:
    last_events = yield from ask("run_ending", run_id=run_id)
    outcomes = yield from ask("run_outcomes", run_id=run_id)
    payload = {}
    if last_events and last_events[0][0] in TERMINAL_RUN_EVENTS:
        payload = msgspec.json.decode(last_events[0][1])
    return RunEnding(
        payload.get("status"), [row[0] for row in outcomes], bool(payload.get("adopted"))
    )


def last_launch(campaign_id: CampaignId) -> Transaction[RunRecord | None]:
    runs = yield from runs_of(campaign_id)
    return next((each for each in reversed(runs) if each.phase == LAUNCH), None)
