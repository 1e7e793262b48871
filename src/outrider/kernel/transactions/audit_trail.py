"""Reading the audit trail: of a run, a campaign, a workspace."""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.kernel.transactions import campaigns, run_records
from outrider.ports.store import Transaction, ask


class AuditRecord(NamedTuple):
    id: str
    created_at: datetime
    actor: str
    event: str
    run_id: str | None
    job_id: str | None
    outbox_id: str | None
    detail: str


def audit_of_run(
    scope: Scope, run_id: RunId, after: str, most: int
) -> Transaction[list[AuditRecord]]:
    rows = yield from ask("audit_of_run", **scope._asdict(), run_id=run_id, after=after, most=most)
    return [AuditRecord(*row) for row in rows]


def audit_of_workspace(scope: Scope, after: str, most: int) -> Transaction[list[AuditRecord]]:
    rows = yield from ask("audit_of_workspace", **scope._asdict(), after=after, most=most)
    return [AuditRecord(*row) for row in rows]


def audit_of_campaign(
    scope: Scope, campaign_id: CampaignId, after: str, most: int
) -> Transaction[list[AuditRecord]]:
    rows = yield from ask(
        "audit_of_campaign", **scope._asdict(), campaign_id=campaign_id, after=after, most=most
    )
    return [AuditRecord(*row) for row in rows]


def page(
    scope: Scope,
    campaign_id: str | None,
    run_id: str | None,
    after: str,
    most: int,
    *,
    newest_first: bool = False,
) -> Transaction[list[AuditRecord]]:
    """Of a run, of a campaign, or of the whole workspace."""
    if campaign_id is not None:
        yield from campaigns.campaign(scope, CampaignId(campaign_id))
    if run_id is not None:
        run = yield from run_records.run(scope, RunId(run_id))
        if campaign_id not in (None, run.campaign_id):
            raise NotFound(f"campaign {campaign_id} has no run {run_id}")
    if newest_first:
        return (yield from _newest(scope, campaign_id, run_id, after, most))
    if run_id is not None:
        return (yield from audit_of_run(scope, RunId(run_id), after, most))
    if campaign_id is not None:
        return (yield from audit_of_campaign(scope, CampaignId(campaign_id), after, most))
    return (yield from audit_of_workspace(scope, after, most))


def _newest(
    scope: Scope, campaign_id: str | None, run_id: str | None, before: str, most: int
) -> Transaction[list[AuditRecord]]:
    given: dict[str, object] = {**scope._asdict(), "before": before, "most": most}
    if run_id is not None:
        rows = yield from ask("newest_audit_of_run", **given, run_id=run_id)
    elif campaign_id is not None:
        rows = yield from ask("newest_audit_of_campaign", **given, campaign_id=campaign_id)
    else:
        rows = yield from ask("newest_audit_of_workspace", **given)
    return [AuditRecord(*row) for row in rows]
