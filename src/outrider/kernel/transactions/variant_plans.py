"""Which variants a run has, and how many of its items each was assigned: said once, in its log."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from outrider.domain.campaigns import Asset, CampaignDefinition
from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEventType
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.job_plans import JobPlan
from outrider.kernel.transactions.run_log import EventDraft
from outrider.ports.store import Transaction


def planned(
    run_id: RunId,
    plan_version: str,
    definition: CampaignDefinition,
    assets: Iterable[Asset],
    plans: Sequence[JobPlan],
    now: datetime,
) -> Transaction[None]:
    varied = {each.id: each for each in definition.messages if each.variants}
    if not varied:
        return
    items = dict.fromkeys((asset.id for asset in assets), 0)
    awaiting = dict.fromkeys(varied, 0)
    for plan in plans:
        if plan.choice is not None:
            items[plan.asset.id] += plan.item_count
        elif plan.awaits_winner:
            awaiting[plan.asset.message.id] += plan.item_count
    weights = {(name, each.id): each.weight for name, m in varied.items() for each in m.variants}
    payload: dict[str, object] = {
        "messages": [
            {
                "messageId": name,
                "variants": [
                    {
                        "variant": asset.message.variant,
                        "assetId": asset.id,
                        "weight": weights[name, asset.message.variant or ""],
                        "items": items[asset.id],
                    }
                    for asset in assets
                    if asset.message.id == name
                ],
                "awaitingWinner": awaiting[name],
            }
            for name in varied
        ]
    }
    if definition.winner is not None:
        payload["winner"] = definition.winner.as_document()
    draft = EventDraft(RunEventType.VARIANTS_PLANNED, payload=payload)
    yield from run_log.append(run_id, plan_version, [draft], now)
