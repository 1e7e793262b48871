"""How much of a run bounced or was complained of, against what its campaign allows."""

from outrider.domain.campaigns import PauseOn
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.pause_rates import RunFigures
from outrider.domain.receipts import DeliveryState
from outrider.kernel.transactions import (
    accountings,
    audit_trail,
    campaigns,
    deliveries,
    run_records,
)
from outrider.kernel.transactions.paging import FIRST
from outrider.kernel.transactions.run_records import RunRecord
from outrider.ports.store import Transaction, ask


def reason_to_pause(
    scope: Scope, run_id: RunId, actor: str, page_items: int
) -> Transaction[tuple[RunRecord, str | None]]:
    """The run, and why its campaign wants it paused, if this actor has not paused it for that."""
    run = yield from run_records.run(scope, run_id)
    found = yield from campaigns.campaign(scope, CampaignId(run.campaign_id))
    definition = campaigns.read_definition(found.definition)
    if definition.pause_on is None or definition.rollout:
        # A rollout is judged by its keeper, step by step.
        return run, None
    figures = yield from figures_of(run)
    reasons = {each.limit: each.description for each in figures.exceeded(definition.pause_on)}
    if not reasons:
        return run, None
    paused_before = yield from _recorded_by(actor, scope, run_id, page_items)
    fresh = [description for kind, description in reasons.items() if kind not in paused_before]
    return run, "; ".join(fresh) or None


def judged(scope: Scope, run_id: RunId) -> Transaction[tuple[PauseOn, RunFigures]]:
    """What the run's campaign allows, and what became of the run so far."""
    run = yield from run_records.run(scope, run_id)
    found = yield from campaigns.campaign(scope, CampaignId(run.campaign_id))
    limits = campaigns.read_definition(found.definition).pause_on or PauseOn()
    return limits, (yield from figures_of(run))


def figures_of(run: RunRecord) -> Transaction[RunFigures]:
    accounting = yield from accountings.accounting(run)
    counts = yield from deliveries.of_run(run.id)
    return RunFigures(
        accounting.sent,
        counts.get(DeliveryState.BOUNCED, 0),
        counts.get(DeliveryState.COMPLAINED, 0),
        accounting.failed,
        accounting.in_doubt,
        max(0, accounting.sent - sum(counts.values())),
        accounting.intended,
    )


def worse_runs(most: int) -> Transaction[frozenset[tuple[Scope, RunId]]]:
    """Running runs with at least one bounce or complaint."""
    rows = yield from ask("runs_that_got_worse", most=most)
    return frozenset((Scope(tenant, workspace), RunId(run)) for tenant, workspace, run in rows)


def _recorded_by(actor: str, scope: Scope, run_id: RunId, page_items: int) -> Transaction[str]:
    """Read completely: settled doubts alone may fill the first pages of a run's audit log."""
    details: list[str] = []
    after = FIRST
    while True:
        page = yield from audit_trail.audit_of_run(scope, run_id, after, page_items)
        details += [each.detail for each in page if each.actor == actor]
        if len(page) < page_items:
            return " ".join(details)
        after = page[-1].id
