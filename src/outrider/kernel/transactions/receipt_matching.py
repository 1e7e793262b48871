"""Matching receipts with their items: one transaction per window.

A window is claimed, matched, folded and followed up together, so that a matcher that dies has done
all of it or nothing, and no receipt is with two of them. What finds no item waits.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import OutboxId, RunId, Scope, WorkspaceId
from outrider.domain.receipts import Delivery, DeliveryState, rank, state_of
from outrider.domain.states import SUCCESSES, Channel, ItemStatus
from outrider.kernel.transactions import deliveries, message_events, receipt_consequences, receipts
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.deliveries import ChangedDelivery, FoldedReceipt, TargetTally
from outrider.kernel.transactions.message_events import MessageReport
from outrider.kernel.transactions.receipt_consequences import Addressed
from outrider.kernel.transactions.receipts import MatchedBy, MatchedItem, WaitingReceipt
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Transaction

ChannelOf = Callable[[str], Channel | None]
"""The channel of a submission target; None of one that is gone."""

_REFERENCE = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class WindowOutcome:
    """What came of a window of receipts."""

    claimed: int = 0
    matched: Sequence[tuple[WaitingReceipt, MatchedItem]] = ()
    changed: Sequence[ChangedDelivery] = ()
    opted: Sequence[Addressed] = ()
    """Whose opt-out or opt-in was followed."""
    worse_runs: frozenset[tuple[Scope, RunId]] = field(default_factory=frozenset)
    """In which more bounced or was complained of than before."""


class MatchingScripts:
    def __init__(
        self, channel_of: ChannelOf, clock: Clock, ids: IdSource, limits: ReceiptLimits
    ) -> None:
        self._channel_of = channel_of
        self._clock = clock
        self._ids = ids
        self._receipt_limits = limits

    def window(self, *, only_urgent: bool) -> Transaction[WindowOutcome]:
        now = self._clock.now()
        claimed = yield from receipts.claim(
            self._receipt_limits.window_items, now, only_urgent=only_urgent
        )
        if not claimed:
            return WindowOutcome()
        found = yield from self._found(claimed)
        settled = yield from receipt_consequences.settle_doubts(
            [(claimed[place], item) for place, (item, _) in found.items()], self._ids, now
        )
        matched = {
            place: (item, how)
            for place, (item, how) in found.items()
            if item.id in settled or _has_ended(item)
        }
        left = [(place, each) for place, each in enumerate(claimed) if place not in matched]
        yield from self._wait(left, found, now)
        return (
            yield from self._followed(
                [(claimed[place], item, how) for place, (item, how) in matched.items()],
                settled,
                [each for _, each in left],
                now,
            )
        )

    def by_hand(
        self, scope: Scope, receipt_id: str, outbox_id: OutboxId, actor: str
    ) -> Transaction[WindowOutcome]:
        now = self._clock.now()
        receipt = yield from receipts.claim_one(scope, receipt_id)
        if receipt is None:
            known = yield from receipts.receipt(scope, receipt_id)
            raise Conflict(
                f"receipt {receipt_id} is matched already"
                if known.outbox_id
                else f"receipt {receipt_id} is about no message"
            )
        item = yield from receipts.item_by_id(scope, outbox_id)
        if item is None:
            raise NotFound(f"there is no item {outbox_id}")
        channel = self._channel_of(receipt.submission_target)
        if channel is not None and channel.value != item.channel:
            raise Conflict(
                f"receipt {receipt_id} is of the channel {channel.value}, and item {outbox_id} of"
                f" {item.channel}"
            )
        settled = yield from receipt_consequences.settle_doubts([(receipt, item)], self._ids, now)
        if not (settled or _has_ended(item)):
            raise Conflict(
                f"item {outbox_id} has not ended", hint="try again when its call has been answered"
            )
        matched = [(receipt, item, MatchedBy.PERSON)]
        outcome = yield from self._followed(matched, settled, [], now)
        detail: dict[str, object] = {"receiptId": receipt.id, "event": receipt.event.value}
        entry = AuditEntry(
            scope, "receipt.matched", actor, run_id=item.run_id, outbox_id=item.id, detail=detail
        )
        yield from record([entry], self._ids, now)
        return outcome

    def _found(
        self, claimed: Sequence[WaitingReceipt]
    ) -> Transaction[dict[int, tuple[MatchedItem, MatchedBy]]]:
        """By our own reference where it came back, else by the id that the provider gave it."""
        found: dict[int, tuple[MatchedItem, MatchedBy]] = {}
        references = {
            place: (each, each.reference.lower())
            for place, each in enumerate(claimed)
            if each.reference is not None and _REFERENCE.match(each.reference.lower())
        }
        if references:
            items = yield from receipts.items_by_reference(references)
            found |= {place: (item, MatchedBy.REFERENCE) for place, item in items.items()}
        messages = {
            place: (each, each.provider_message_id)
            for place, each in enumerate(claimed)
            if place not in found and each.provider_message_id is not None
        }
        if messages:
            items = yield from receipts.items_by_provider_message(messages)
            by_id = MatchedBy.PROVIDER_MESSAGE_ID
            found |= {place: (item, by_id) for place, item in items.items()}
        return found

    def _followed(
        self,
        matched: Sequence[tuple[WaitingReceipt, MatchedItem, MatchedBy]],
        settled: set[OutboxId],
        left: Sequence[WaitingReceipt],
        now: datetime,
    ) -> Transaction[WindowOutcome]:
        """Everything that these receipts change."""
        changed = yield from deliveries.fold(_strongest(matched, settled))
        yield from receipts.settle([(each, item.id, how) for each, item, how in matched], now)
        opted: list[Addressed] = []
        for scope, addressed in self._addressed(matched, left).items():
            opted += yield from receipt_consequences.follow(scope, addressed, self._ids, now)
        yield from message_events.append([_report(each, item.id) for each, item, _ in matched], now)
        yield from deliveries.tally(_tallies(matched, changed, now))
        yield from deliveries.count(changed)
        scopes = {item.id: each.scope for each, item, _ in matched}
        return WindowOutcome(
            len(matched) + len(left),
            [(each, item) for each, item, _ in matched],
            changed,
            opted,
            frozenset(
                (scopes[each.outbox_id], each.run_id)
                for each in changed
                if each.run_id and _is_worse(each)
            ),
        )

    def _addressed(
        self,
        matched: Sequence[tuple[WaitingReceipt, MatchedItem, MatchedBy]],
        left: Sequence[WaitingReceipt],
    ) -> dict[Scope, list[Addressed]]:
        """A reply is its sender's word also where nobody knows which message it answers."""
        by_scope: dict[Scope, list[Addressed]] = {}
        for receipt, item, _ in matched:
            address = item.address or receipt.sender
            if address:
                by_scope.setdefault(receipt.scope, []).append(
                    Addressed(receipt, item.channel, address)
                )
        for receipt in left:
            channel = self._channel_of(receipt.submission_target)
            is_new = receipt.looks == 0 or not _names_item(receipt)
            if receipt.sender and is_new and channel is not None:
                by_scope.setdefault(receipt.scope, []).append(
                    Addressed(receipt, channel.value, receipt.sender)
                )
        return {
            scope: [each for each in addressed if _may_opt(each.receipt)]
            for scope, addressed in by_scope.items()
            if any(_may_opt(each.receipt) for each in addressed)
        }

    def _wait(
        self,
        left: Sequence[tuple[int, WaitingReceipt]],
        found: Mapping[int, tuple[MatchedItem, MatchedBy]],
        now: datetime,
    ) -> Transaction[None]:
        """What names an item is looked for again. A reply that names none has been dealt with,
        unless nobody here knows on which channel its sender wrote."""
        postponed: list[tuple[WaitingReceipt, datetime | None]] = []
        for place, each in left:
            is_open = _names_item(each) or (
                each.keyword is not None and self._channel_of(each.submission_target) is None
            )
            if is_open or place in found:
                postponed.append((each, self._look_again_at(each, now, is_there=place in found)))
            elif each.sender is None:
                postponed.append((each, None))
        yield from receipts.put_back(postponed)

    def _look_again_at(
        self, receipt: WaitingReceipt, now: datetime, *, is_there: bool
    ) -> datetime | None:
        """An item that is there will end, and is waited for however long that takes."""
        delays = self._receipt_limits.look_again_seconds
        if receipt.looks >= len(delays) and not is_there:
            return None
        return now + timedelta(seconds=delays[min(receipt.looks, len(delays) - 1)])


def _report(receipt: WaitingReceipt, outbox_id: OutboxId) -> MessageReport:
    return MessageReport(
        outbox_id, receipt.event, receipt.effective_at, receipt.permanent, receipt.reason,
        receipt.receipt_id, receipt.text,
    )  # fmt: skip


def _names_item(receipt: WaitingReceipt) -> bool:
    return receipt.reference is not None or receipt.provider_message_id is not None


def _has_ended(item: MatchedItem) -> bool:
    """While a call is out, nobody knows yet whether it counts as sent."""
    return item.status != ItemStatus.QUEUED.value


def _may_opt(receipt: WaitingReceipt) -> bool:
    return receipt.keyword is not None or state_of(receipt.event) in (
        DeliveryState.BOUNCED,
        DeliveryState.COMPLAINED,
    )


def _is_worse(changed: ChangedDelivery) -> bool:
    return changed.state in (DeliveryState.BOUNCED, DeliveryState.COMPLAINED)


def _strongest(
    matched: Sequence[tuple[WaitingReceipt, MatchedItem, MatchedBy]], settled: set[OutboxId]
) -> list[FoldedReceipt]:
    """Of each item the strongest; it counts in its run where the ledger says that it was sent."""
    strongest: dict[OutboxId, FoldedReceipt] = {}
    for receipt, item, _ in matched:
        state = state_of(receipt.event)
        if state is None:
            continue
        was_sent = item.id in settled or ItemStatus(item.status) in SUCCESSES
        delivery = Delivery(state, receipt.permanent, receipt.reason, receipt.effective_at)
        strength = rank(receipt.event, permanent=receipt.permanent)
        folded = FoldedReceipt(
            item.id, item.run_id if was_sent else None, delivery, strength, receipt.receipt_id
        )
        known = strongest.get(item.id)
        if known is None or _strength(folded) > _strength(known):
            strongest[item.id] = folded
    return list(strongest.values())


def _strength(folded: FoldedReceipt) -> tuple[int, datetime, str]:
    assert folded.delivery.at is not None
    return folded.rank, folded.delivery.at, folded.receipt_id


def _tallies(
    matched: Sequence[tuple[WaitingReceipt, MatchedItem, MatchedBy]],
    changed: Sequence[ChangedDelivery],
    now: datetime,
) -> list[TargetTally]:
    places = {item.id: (each.workspace_id, each.submission_target) for each, item, _ in matched}
    hour_at = now.replace(minute=0, second=0, microsecond=0)
    tallies: dict[tuple[WorkspaceId, str], TargetTally] = {}
    for each in changed:
        place = places[each.outbox_id]
        known = tallies.get(place) or TargetTally(*place, hour_at)
        tallies[place] = known._replace(
            reported=known.reported + (each.previous_state is None),
            bounced=known.bounced + _moved(each, DeliveryState.BOUNCED),
            complained=known.complained + _moved(each, DeliveryState.COMPLAINED),
        )
    return list(tallies.values())


def _moved(each: ChangedDelivery, state: DeliveryState) -> int:
    return (each.state is state) - (each.previous_state is state)
