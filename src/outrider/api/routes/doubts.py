"""Items in doubt: listed with the reference to look for, and settled by evidence."""

from typing import Annotated

from fastapi import Query

from outrider.api import cursors
from outrider.api.context import PAGE_DEFAULT, After, Asker, Limit, Wired
from outrider.api.models.common import Page
from outrider.api.models.items import DoubtAnswer, Resolved, VerdictBody
from outrider.api.route import api_router
from outrider.domain.ids import OutboxId
from outrider.kernel.transactions import doubts, inspection
from outrider.kernel.transactions.inspection import FIRST

router = api_router("doubts")


@router.get("/doubts", operation_id="listDoubts", summary="What is in doubt, and since when")
async def list_doubts(
    outrider: Wired,
    asker: Asker,
    run_id: Annotated[
        str | None, Query(alias="runId", description="Only items of this run.")
    ] = None,
    limit: Limit = PAGE_DEFAULT,
    after: After = None,
) -> Page[DoubtAnswer]:
    begin = cursors.id_after(after, FIRST)
    found = await outrider.store.read(doubts.doubts_page(asker.scope, run_id, begin, limit))
    return Page(
        items=[DoubtAnswer.of(doubt) for doubt in found],
        next=cursors.encode(found[-1].id) if len(found) == limit else None,
    )


@router.post(
    "/doubts/{outbox_id}/resolve",
    operation_id="resolveDoubt",
    summary="Say what became of an item, and how you know",
)
async def resolve(outbox_id: str, body: VerdictBody, outrider: Wired, asker: Asker) -> Resolved:
    item = await outrider.store.read(inspection.item(asker.scope, OutboxId(outbox_id)))
    await outrider.doubt_resolver.resolve(
        asker.scope, item.id, body.verdict, body.evidence, asker.actor
    )
    return Resolved(outbox_id=item.id, verdict=body.verdict)
