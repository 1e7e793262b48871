"""Deliveries: what each item's receipts add up to, and the counts per run.

The counts change in the same transaction, by differences, so that a run's items never have to be
counted.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import OutboxId, RunId, Scope, WorkspaceId, is_uuid
from outrider.domain.receipts import Delivery, DeliveryState
from outrider.ports.store import Transaction, Window, ask


class FoldedReceipt(NamedTuple):
    """The strongest receipt of an item among those at hand. `run_id` is the run in whose figures
    the item counts as sent, if any."""

    outbox_id: OutboxId
    run_id: RunId | None
    delivery: Delivery
    rank: int
    receipt_id: str


class ChangedDelivery(NamedTuple):
    outbox_id: OutboxId
    run_id: RunId | None
    state: DeliveryState
    previous_run_id: RunId | None
    previous_state: DeliveryState | None
    """None if nothing was known about the item before."""


class MovedDeliveries(NamedTuple):
    """A number of a target's items whose deliveries changed in the same way."""

    scope: Scope
    submission_target: str
    run_id: RunId | None
    state: DeliveryState
    previous_run_id: RunId | None
    previous_state: DeliveryState | None
    items: int = 1

    def towards(self, state: DeliveryState) -> int:
        """How many more have that state than before."""
        return self.items * ((self.state is state) - (self.previous_state is state))


class TargetTally(NamedTuple):
    """What is added to a target's hourly figures."""

    workspace_id: WorkspaceId
    submission_target: str
    hour_at: datetime
    sent: int = 0
    reported: int = 0
    bounced: int = 0
    complained: int = 0


class TargetRates(NamedTuple):
    """A target's figures over some hours. Some providers report only failures, and a killed worker
    has not recorded what it sent last: the larger of the two numbers counts as sent."""

    scope: Scope
    submission_target: str
    sent: int
    reported: int
    bounced: int
    complained: int
    since: datetime

    @property
    def messages(self) -> int:
        return max(self.sent, self.reported)


def fold(folded: Sequence[FoldedReceipt]) -> Transaction[list[ChangedDelivery]]:
    """Let each item's delivery be the strongest that is known; those that changed."""
    if not folded:
        return []
    # Always in the same order, so that two matchers cannot deadlock.
    ordered = sorted(folded, key=lambda each: each.outbox_id)
    rows = yield from ask(
        "fold_deliveries",
        {
            "outbox_id": [each.outbox_id for each in ordered],
            "run_id": [each.run_id for each in ordered],
            "state": [each.delivery.state.value for each in ordered],
            "permanent": [each.delivery.permanent for each in ordered],
            "reason": [each.delivery.reason for each in ordered],
            "occurred_at": [each.delivery.at for each in ordered],
            "rank": [each.rank for each in ordered],
            "receipt_id": [each.receipt_id for each in ordered],
        },
    )
    return [
        ChangedDelivery(
            outbox_id, run_id, DeliveryState(state), previous_run_id,
            DeliveryState(previous_state) if previous_state else None,
        )
        for outbox_id, run_id, state, previous_run_id, previous_state in rows
    ]  # fmt: skip


def sum_up(moved: Sequence[MovedDeliveries], now: datetime) -> Transaction[None]:
    """Update the figures of targets and runs in the same transaction. All matchers of a run's
    receipts wait for these rows, so this is the last step of a transaction."""
    yield from tally(_tallies(moved, now))
    yield from _count(moved)


def worse_runs(moved: Iterable[MovedDeliveries]) -> frozenset[tuple[Scope, RunId]]:
    """Those in which more bounced or was complained of than before."""
    bad = (DeliveryState.BOUNCED, DeliveryState.COMPLAINED)
    return frozenset(
        (each.scope, each.run_id) for each in moved if each.run_id and each.state in bad
    )


def _count(moved: Iterable[MovedDeliveries]) -> Transaction[None]:
    differences: Counter[tuple[str, str]] = Counter()
    for each in moved:
        if each.run_id is not None:
            differences[each.run_id, each.state.value] += each.items
        if each.previous_run_id is not None and each.previous_state is not None:
            differences[each.previous_run_id, each.previous_state.value] -= each.items
    changes = sorted((place, items) for place, items in differences.items() if items)
    if changes:
        window: Window = {
            "run_id": [run_id for (run_id, _), _ in changes],
            "state": [state for (_, state), _ in changes],
            "items": [items for _, items in changes],
        }
        yield from ask("count_deliveries", window)


def _tallies(moved: Iterable[MovedDeliveries], now: datetime) -> list[TargetTally]:
    hour_at = now.replace(minute=0, second=0, microsecond=0)
    tallies: dict[tuple[WorkspaceId, str], TargetTally] = {}
    for each in moved:
        place = each.scope.workspace_id, each.submission_target
        known = tallies.get(place) or TargetTally(*place, hour_at)
        tallies[place] = known._replace(
            reported=known.reported + each.items * (each.previous_state is None),
            bounced=known.bounced + each.towards(DeliveryState.BOUNCED),
            complained=known.complained + each.towards(DeliveryState.COMPLAINED),
        )
    return list(tallies.values())


def tally(tallies: Sequence[TargetTally]) -> Transaction[None]:
    if not tallies:
        return
    ordered = sorted(tallies, key=lambda each: each[:3])
    yield from ask(
        "tally_targets",
        {
            "workspace_id": [each.workspace_id for each in ordered],
            "submission_target": [each.submission_target for each in ordered],
            "hour_at": [each.hour_at for each in ordered],
            "sent": [each.sent for each in ordered],
            "reported": [each.reported for each in ordered],
            "bounced": [each.bounced for each in ordered],
            "complained": [each.complained for each in ordered],
        },
    )


def rates(since: datetime, most: int) -> Transaction[list[TargetRates]]:
    """Of the targets of which anything bounced or was complained of since then."""
    rows = yield from ask("target_rates", since=since, most=most)
    return [
        TargetRates(Scope(tenant, workspace), target, sent, reported, bounces, complaints, began)
        for tenant, workspace, target, sent, reported, bounces, complaints, began in rows
    ]


def tally_sent(tallies: Sequence[TargetTally], forget_before: datetime | None) -> Transaction[None]:
    """Add what was sent, and delete figures older than the given time, if any."""
    yield from tally(tallies)
    if forget_before is not None:
        yield from forget_tallies(forget_before)


def forget_tallies(before: datetime) -> Transaction[None]:
    yield from ask("forget_target_tallies", before=before)


def of_items(outbox_ids: Sequence[OutboxId]) -> Transaction[dict[OutboxId, Delivery]]:
    """The deliveries of these items; items without a receipt are left out."""
    wanted = [each for each in outbox_ids if is_uuid(each)]
    if not wanted:
        return {}
    rows = yield from ask("deliveries_of_items", {"id": wanted})
    return {
        OutboxId(outbox_id): Delivery(DeliveryState(state), bool(permanent), reason, occurred_at)
        for outbox_id, state, permanent, reason, occurred_at in rows
    }


def of_runs(run_ids: Sequence[RunId]) -> Transaction[dict[RunId, Mapping[DeliveryState, int]]]:
    """How many of each run's items that were sent have which delivery; of the others no receipt
    speaks. A run of which none does is not among them."""
    wanted = [each for each in run_ids if is_uuid(each)]
    if not wanted:
        return {}
    rows = yield from ask("deliveries_of_runs", {"id": wanted})
    counts: dict[RunId, Mapping[DeliveryState, int]] = {}
    for run_id, state, items in rows:
        counts[run_id] = {**counts.get(run_id, {}), DeliveryState(state): items}
    return counts


def of_run(run_id: RunId) -> Transaction[Mapping[DeliveryState, int]]:
    return (yield from of_runs([run_id])).get(run_id, {})
