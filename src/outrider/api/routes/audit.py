"""The audit trail: who did what, oldest first; it only ever grows."""

from typing import Annotated, Any

import msgspec
from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.admin import AuditAnswer
from outrider.api.models.common import Page
from outrider.api.route import api_router
from outrider.domain.errors import NotFound
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.kernel.transactions import campaigns, inspection
from outrider.kernel.transactions.inspection import FIRST, AuditRecord
from outrider.ports.store import Transaction

router = api_router("audit")


@router.get(
    "/audit",
    operation_id="listAudit",
    summary="List the audit trail of the workspace, a campaign or a run",
)
async def list_audit(
    outrider: Wired,
    asker: Asker,
    campaign_id: Annotated[str | None, Query(alias="campaignId")] = None,
    run_id: Annotated[str | None, Query(alias="runId")] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[AuditAnswer]:
    begin = cursors.id_after(after, FIRST)
    found = await outrider.store.read(_page(asker.scope, campaign_id, run_id, begin, limit))
    return Page(
        items=[
            AuditAnswer.of(entry, msgspec.json.decode(entry.detail, type=dict[str, Any]))
            for entry in found
        ],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


def _page(
    scope: Scope, campaign_id: str | None, run_id: str | None, after: str, most: int
) -> Transaction[list[AuditRecord]]:
    if campaign_id is not None:
        yield from campaigns.campaign(scope, CampaignId(campaign_id))
    if run_id is not None:
        run = yield from inspection.run(scope, RunId(run_id))
        if campaign_id not in (None, run.campaign_id):
            raise NotFound(f"campaign {campaign_id} has no run {run_id}")
        return (yield from inspection.audit_of_run(scope, run.id, after, most))
    if campaign_id is not None:
        return (
            yield from inspection.audit_of_campaign(scope, CampaignId(campaign_id), after, most)
        )
    return (yield from inspection.audit_of_workspace(scope, after, most))
