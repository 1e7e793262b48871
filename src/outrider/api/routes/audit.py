"""The audit trail: who did what; it only ever grows."""

from typing import Annotated, Any

import msgspec
from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.admin import AuditAnswer
from outrider.api.models.common import Page
from outrider.api.route import api_router
from outrider.kernel.transactions import audit_trail
from outrider.kernel.transactions.paging import FIRST, LAST

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
    newest_first: Annotated[
        bool, Query(alias="newestFirst", description="Newest first; otherwise oldest first.")
    ] = False,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[AuditAnswer]:
    begin = cursors.id_after(after, LAST if newest_first else FIRST)
    found = await outrider.store.read(
        audit_trail.page(asker.scope, campaign_id, run_id, begin, limit, newest_first=newest_first)
    )
    return Page(
        items=[
            AuditAnswer.of(entry, msgspec.json.decode(entry.detail, type=dict[str, Any]))
            for entry in found
        ],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )
