"""A/B variants of a run: what became of each, and the choice of a winner.

A winner is chosen under the lock on its campaign's controls, once: the jobs that wait for it get
its asset, and the run's log says by whom, in the same transaction.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.campaigns import CampaignDefinition
from outrider.domain.ids import CampaignId, RunId, Scope
from outrider.domain.run_events import RunEventType, winner_step
from outrider.domain.variants import (
    BY_RECEIPTS,
    ChosenWinner,
    VariantFigures,
    WinnerRule,
    leader,
)
from outrider.kernel.transactions import campaigns, run_log, run_records
from outrider.kernel.transactions.run_log import EventDraft
from outrider.ports.store import Transaction, ask


class VariantsOfRun(NamedTuple):
    """Of one message: its variants, in the order of its document. `awaits_winner`: the last step
    cannot be sent before one of them is chosen."""

    message_id: str
    weights: Sequence[int]
    figures: Sequence[VariantFigures]
    winner: ChosenWinner | None
    awaits_winner: bool


def undecided(run_ids: Collection[RunId]) -> Transaction[dict[RunId, list[str]]]:
    """The messages whose last step waits for a winner, of those runs that have any."""
    found: dict[RunId, list[str]] = {}
    rows = yield from ask("messages_without_winner", {"id": list(run_ids)})
    for run_id, message_id in rows:
        found.setdefault(RunId(run_id), []).append(message_id)
    return found


def definition_of(scope: Scope, campaign_id: CampaignId) -> Transaction[CampaignDefinition]:
    found = yield from campaigns.campaign(scope, campaign_id)
    return campaigns.read_definition(found.definition)


def of_run(
    scope: Scope, run_id: RunId
) -> Transaction[tuple[WinnerRule | None, list[VariantsOfRun]]]:
    """Messages without variants are not among them."""
    run = yield from run_records.run(scope, run_id)
    definition = yield from definition_of(scope, CampaignId(run.campaign_id))
    varied = [message for message in definition.messages if message.variants]
    if not varied:
        return None, []
    figures = yield from figures_of(CampaignId(run.campaign_id), run_id)
    waiting = (yield from undecided([run_id])).get(run_id, [])
    winners = {each.message_id: each for each in (yield from winners_of(run_id))}
    return definition.winner, [
        VariantsOfRun(
            message.id,
            [variant.weight for variant in message.variants],
            [each for each in figures if each.message_id == message.id],
            winners.get(message.id),
            message.id in waiting,
        )
        for message in varied
    ]


def winners_of(run_id: RunId) -> Transaction[list[ChosenWinner]]:
    return [ChosenWinner(*row) for row in (yield from ask("winners_of_run", run_id=run_id))]


def figures_of(campaign_id: CampaignId, run_id: RunId) -> Transaction[list[VariantFigures]]:
    """Of what was assigned by draw; of the runs that this one continues, what they sent."""
    assets = yield from campaigns.assets_of(campaign_id)
    counted = {row[0]: row[1:] for row in (yield from ask("variant_items", run_id=run_id))}
    deliveries: dict[str, dict[str, int]] = {}
    for asset_id, state, count in (yield from ask("variant_deliveries", run_id=run_id)):
        deliveries.setdefault(asset_id, {})[state] = count
    return [
        VariantFigures(
            asset.message.id, asset.message.variant, asset.id,
            items, sent, failed, skipped, deliveries.get(asset.id, {}),
        )
        for asset in assets
        if asset.message.variant is not None
        for items, sent, failed, skipped in [counted.get(asset.id, (0, 0, 0, 0))]
    ]  # fmt: skip


def choose(
    run_id: RunId,
    chosen: VariantFigures,
    decided_by: str,
    figures: Iterable[VariantFigures],
    now: datetime,
    drafts: Sequence[EventDraft] = (),
) -> Transaction[None]:
    """The caller has the lock on the campaign's controls, and knows that nothing was chosen
    before."""
    message_id = chosen.message_id
    yield from ask(
        "send_winner", run_id=run_id, message_id=message_id, asset_id=chosen.asset_id, now=now
    )
    run = yield from run_records.lock(run_id)
    yield from ask(
        "insert_winner",
        run_id=run_id,
        message_id=message_id,
        asset_id=chosen.asset_id,
        variant=chosen.variant,
        decided_by=decided_by,
        now=now,
    )
    payload = {
        "messageId": message_id,
        "variant": chosen.variant,
        "assetId": chosen.asset_id,
        "by": decided_by,
        "figures": [each.as_document() for each in figures if each.message_id == message_id],
    }
    draft = EventDraft(RunEventType.WINNER_CHOSEN, winner_step(message_id), payload=payload)
    yield from run_log.append(run_id, run.plan_version, [*drafts, draft], now)


def leaders(
    scope: Scope, campaign_id: CampaignId, run_id: RunId
) -> Transaction[tuple[list[VariantFigures], list[VariantFigures]]]:
    """The variants that receipts choose, of the messages that wait for one, and all figures."""
    definition = yield from definition_of(scope, campaign_id)
    if definition.winner is None or definition.winner.by != BY_RECEIPTS:
        return [], []
    waiting = (yield from undecided([run_id])).get(run_id, [])
    figures = yield from figures_of(campaign_id, run_id)
    found = [
        leader((each for each in figures if each.message_id == message_id), definition.winner)
        for message_id in waiting
    ]
    return [each for each in found if each is not None], figures


class Leader(NamedTuple):
    """What was found before the transaction that records it."""

    run_id: RunId
    chosen: VariantFigures
    figures: Sequence[VariantFigures]


def choose_by_receipts(found: Leader, now: datetime) -> Transaction[bool]:
    """False: somebody else has chosen meanwhile. The caller has the lock on the campaign's
    controls."""
    waiting = (yield from undecided([found.run_id])).get(found.run_id, [])
    if found.chosen.message_id not in waiting:
        return False
    yield from choose(found.run_id, found.chosen, BY_RECEIPTS, found.figures, now)
    return True
