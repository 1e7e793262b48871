"""One ledger item: everything known about it, and why it was or was not sent."""

from outrider.api.context import Asker, Wired
from outrider.api.models.items import ItemAnswer
from outrider.api.models.runs import Explanation
from outrider.api.route import api_router
from outrider.domain.ids import OutboxId
from outrider.kernel.transactions import ledger_items

router = api_router("outbox")


@router.get("/outbox/{outbox_id}", operation_id="getItem", summary="Get an item with its attempts")
async def show(outbox_id: str, outrider: Wired, asker: Asker) -> ItemAnswer:
    item, attempts, late = await outrider.store.read(
        ledger_items.whole(asker.scope, OutboxId(outbox_id))
    )
    return ItemAnswer.whole(item, attempts, late)


@router.get(
    "/outbox/{outbox_id}/explain",
    operation_id="explainItem",
    summary="Explain why an item was or was not sent",
)
async def explain(outbox_id: str, outrider: Wired, asker: Asker) -> Explanation:
    whole = await outrider.store.read(ledger_items.whole(asker.scope, OutboxId(outbox_id)))
    explained = await outrider.item_explainer.explain(asker.scope, whole)
    return Explanation.of(whole.item, explained)
