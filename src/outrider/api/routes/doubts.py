"""Items in doubt: listed with the reference to look for, and settled by evidence."""

from typing import Annotated

from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.common import Page
from outrider.api.models.items import (
    AllResolved,
    DoubtAnswer,
    Resolved,
    VerdictBody,
    VerdictsBody,
)
from outrider.api.route import api_router
from outrider.domain.errors import InvalidInput, Problem
from outrider.domain.ids import OutboxId
from outrider.kernel.delivery.doubt_resolver import DoubtsOf
from outrider.kernel.transactions import doubts, ledger_items
from outrider.kernel.transactions.paging import FIRST

router = api_router("doubts")


@router.get("/doubts", operation_id="listDoubts", summary="List items in doubt")
async def list_doubts(
    outrider: Wired,
    asker: Asker,
    run_id: Annotated[
        str | None, Query(alias="runId", description="Only items of this run.")
    ] = None,
    campaign_id: Annotated[
        str | None, Query(alias="campaignId", description="Only items of this campaign's runs.")
    ] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[DoubtAnswer]:
    begin = cursors.id_after(after, FIRST)
    found = await outrider.store.read(
        doubts.doubts_page(asker.scope, run_id, begin, limit, campaign_id)
    )
    return Page(
        items=[DoubtAnswer.of(doubt) for doubt in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


@router.post(
    "/doubts/resolve",
    operation_id="resolveDoubts",
    summary="Resolve many items at once; without `confirm` they are only counted",
)
async def resolve_all(body: VerdictsBody, outrider: Wired, asker: Asker) -> AllResolved:
    ids = [OutboxId(each) for each in body.ids] if body.ids is not None else None
    if ids is not None and (body.run_id is not None or body.campaign_id is not None):
        raise InvalidInput(
            "give either item IDs, or a run or campaign",
            [Problem("ids", "cannot be combined with runId or campaignId")],
        )
    of = DoubtsOf(body.run_id, body.campaign_id, ids)
    resolver = outrider.doubt_resolver
    matching = await resolver.count(asker.scope, of)
    resolved, left = 0, matching
    if body.confirm:
        resolved = await resolver.resolve_all(
            asker.scope, of, body.verdict, body.evidence, asker.actor, force=body.force
        )
        left = await resolver.count(asker.scope, of)
    return AllResolved(matching=matching, resolved=resolved, left=left, confirmed=body.confirm)


@router.post(
    "/doubts/{outbox_id}/resolve",
    operation_id="resolveDoubt",
    summary="Resolve an item in doubt, with evidence",
)
async def resolve(outbox_id: str, body: VerdictBody, outrider: Wired, asker: Asker) -> Resolved:
    item = await outrider.store.read(ledger_items.item(asker.scope, OutboxId(outbox_id)))
    await outrider.doubt_resolver.resolve(
        asker.scope, item.id, body.verdict, body.evidence, asker.actor, force=body.force
    )
    return Resolved(outbox_id=item.id, verdict=body.verdict)
