"""Matching receipts with their items: one transaction per window.

A window is claimed, matched, folded and followed up together, so that a matcher that dies has done
all of it or nothing, and no receipt is with two of them. What finds no item waits.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import OutboxId, RunId, Scope, WorkspaceId
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import Delivery, DeliveryState, rank, state_of
from outrider.domain.states import SUCCESSES, Channel, ItemStatus
from outrider.kernel.transactions import (
    deliveries,
    message_events,
    receipt_answers,
    receipt_consequences,
    receipt_sharing,
    receipts,
)
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.deliveries import ChangedDelivery, FoldedReceipt, MovedDeliveries
from outrider.kernel.transactions.message_events import MessageReport
from outrider.kernel.transactions.receipt_answers import Addressed, AnswerOf, OptOutAnswer
from outrider.kernel.transactions.receipt_sharing import NOBODY, ReceiptMatch, Sharers
from outrider.kernel.transactions.receipts import MatchedBy, MatchedItem, WaitingReceipt
from outrider.limits.receipts import ReceiptLimits
from outrider.ports.clock import Clock, IdSource
from outrider.ports.store import Transaction

ChannelOf = Callable[[str], Channel | None]
"""The channel of a submission target; None of one that is gone."""


@dataclass(frozen=True, slots=True)
class WindowOutcome:
    """The result of a window of receipts."""

    claimed: int = 0
    matched: int = 0
    opted: Sequence[Addressed] = ()
    """Whose opt-out or opt-in was followed."""
    worse_runs: frozenset[tuple[Scope, RunId]] = field(default_factory=frozenset)
    """In which more bounced or was complained of than before."""
    answered: int = 0
    """How many replies of STOP or HELP are answered."""


class MatchingScripts:
    def __init__(
        self,
        channel_of: ChannelOf,
        answer_of: AnswerOf,
        clock: Clock,
        ids: IdSource,
        limits: ReceiptLimits,
    ) -> None:
        self._channel_of = channel_of
        self._answer_of = answer_of
        self._clock = clock
        self._ids = ids
        self._receipt_limits = limits

    def window(self, most_others: int, sharers: Sharers = NOBODY) -> Transaction[WindowOutcome]:
        """A window of due urgent receipts, and a number of the others."""
        now = self._clock.now()
        claimed = yield from receipts.claim(self._receipt_limits.window_items, most_others, now)
        if not claimed:
            return WindowOutcome()
        shared = {
            place: each
            for place, each in enumerate(claimed)
            if receipt_sharing.is_shared(each, sharers)
        }
        found = yield from self._found(claimed, shared, sharers)
        settled = yield from receipt_consequences.settle_doubts(
            [(match.receipt, match.item) for match in found.values()], self._ids, now
        )
        matched = {
            place: match
            for place, match in found.items()
            if match.item.id in settled or _has_ended(match.item)
        }
        left = {place: each for place, each in enumerate(claimed) if place not in matched}
        replies = yield from self._replies(left, shared.keys(), sharers)
        yield from self._wait(left, found, shared.keys() - replies.keys(), now)
        repeated = yield from receipt_sharing.hand_over(
            each
            for place in shared
            for each in ([matched[place].receipt] if place in matched else replies.get(place, ()))
        )
        outcome = yield from self._followed(
            [match for match in matched.values() if _place(match.receipt) not in repeated],
            settled,
            [each for some in replies.values() for each in some if _place(each) not in repeated],
            now,
        )
        return replace(outcome, claimed=len(claimed))

    def by_hand(
        self, scope: Scope, receipt_id: str, outbox_id: OutboxId, actor: str
    ) -> Transaction[tuple[WindowOutcome, MatchedItem]]:
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
        matched = [ReceiptMatch(receipt, item, MatchedBy.PERSON)]
        outcome = yield from self._followed(matched, settled, [], now)
        detail: dict[str, object] = {"receiptId": receipt.id, "event": receipt.event.value}
        entry = AuditEntry(
            scope, "receipt.matched", actor, run_id=item.run_id, outbox_id=item.id, detail=detail
        )
        yield from record([entry], self._ids, now)
        return outcome, item

    def _found(
        self,
        claimed: Sequence[WaitingReceipt],
        shared: Mapping[int, WaitingReceipt],
        sharers: Sharers,
    ) -> Transaction[dict[int, ReceiptMatch]]:
        """By our own reference if the provider returned it, otherwise by the provider's id."""
        found: dict[int, ReceiptMatch] = {}
        own = {place: each for place, each in enumerate(claimed) if place not in shared}
        references = {
            place: (each, reference)
            for place, each in own.items()
            if (reference := receipts.reference_of(each)) is not None
        }
        if references:
            items = yield from receipts.items_by_reference(references)
            found |= {
                place: ReceiptMatch(own[place], item, MatchedBy.REFERENCE)
                for place, item in items.items()
            }
        messages = {
            place: (each, each.provider_message_id)
            for place, each in own.items()
            if place not in found and each.provider_message_id is not None
        }
        if messages:
            items = yield from receipts.items_by_provider_message(messages)
            found |= {
                place: ReceiptMatch(own[place], item, MatchedBy.PROVIDER_MESSAGE_ID)
                for place, item in items.items()
            }
        if shared:
            found |= yield from receipt_sharing.found(shared, sharers)
        return found

    def _replies(
        self, left: Mapping[int, WaitingReceipt], shared: Set[int], sharers: Sharers
    ) -> Transaction[dict[int, list[WaitingReceipt]]]:
        """A reply counts even if it is not known which message it answers. It is listed once for
        every workspace it concerns."""
        said = {
            place: each
            for place, each in left.items()
            if each.sender
            and (each.looks == 0 or place in shared or not _names_item(each))
            and self._channel_of(each.submission_target) is not None
        }
        theirs = {place: [each] for place, each in said.items() if place not in shared}
        if len(theirs) < len(said):
            theirs |= yield from receipt_sharing.whose_replies(
                {place: each for place, each in said.items() if place in shared},
                sharers,
                self._receipt_limits.reply_workspaces,
            )
        return theirs

    def _followed(
        self,
        matched: Sequence[ReceiptMatch],
        settled: set[OutboxId],
        replies: Sequence[WaitingReceipt],
        now: datetime,
    ) -> Transaction[WindowOutcome]:
        """Everything that these receipts change."""
        changed = yield from deliveries.fold(_strongest(matched, settled))
        yield from receipts.settle([(each, item.id, how) for each, item, how in matched], now)
        opted: list[Addressed] = []
        asked: list[tuple[Addressed, OptOutWord]] = []
        for scope, addressed in sorted(self._addressed(matched, replies).items()):
            followed = yield from receipt_consequences.follow(scope, addressed, self._ids, now)
            opted += followed.opted
            asked += [(each, OptOutWord.STOP) for each in followed.stopped]
            asked += [(each, OptOutWord.HELP) for each in followed.asked_for_help]
        answered = yield from receipt_answers.submit(self._answers(asked, replies), self._ids, now)
        reports = [_report(each, item.id) for each, item, _ in matched if item.is_heard]
        yield from message_events.append(reports, now)
        moved = _moved(matched, changed)
        yield from deliveries.sum_up(moved, now)
        return WindowOutcome(
            len(matched), len(matched), opted, deliveries.worse_runs(moved), answered
        )

    def _answers(
        self, asked: Sequence[tuple[Addressed, OptOutWord]], replies: Sequence[WaitingReceipt]
    ) -> list[tuple[Addressed, OptOutAnswer]]:
        """Each reply is answered once: by the workspace that wrote last, if it concerns several."""
        speakers: dict[str, Scope] = {}
        for receipt in replies:
            speakers.setdefault(receipt.id, receipt.scope)
        return [
            (each, answer)
            for each, word in asked
            if speakers.get(each.receipt.id, each.receipt.scope) == each.receipt.scope
            and (answer := self._answer_of(each, word)) is not None
        ]

    def _addressed(
        self, matched: Sequence[ReceiptMatch], replies: Sequence[WaitingReceipt]
    ) -> dict[Scope, list[Addressed]]:
        """Receipts that may opt a person in or out, by workspace."""
        by_scope: dict[Scope, list[Addressed]] = {}
        for receipt, item, _ in matched:
            address = item.address or receipt.sender
            if address and _may_opt(receipt):
                by_scope.setdefault(receipt.scope, []).append(
                    Addressed(receipt, item.channel, address)
                )
        for receipt in replies:
            channel = self._channel_of(receipt.submission_target)
            if receipt.sender and channel is not None and _may_opt(receipt):
                by_scope.setdefault(receipt.scope, []).append(
                    Addressed(receipt, channel.value, receipt.sender)
                )
        return by_scope

    def _wait(
        self,
        left: Mapping[int, WaitingReceipt],
        found: Mapping[int, ReceiptMatch],
        unheard: Set[int],
        now: datetime,
    ) -> Transaction[None]:
        """What names an item is looked for again, and so is a reply while nobody is known whom it
        concerns. Any other reply has been dealt with, unless nobody here knows on which channel its
        sender wrote."""
        postponed: list[tuple[WaitingReceipt, datetime | None]] = []
        for place, each in left.items():
            is_open = _names_item(each) or (
                each.keyword is not None and self._channel_of(each.submission_target) is None
            )
            is_unheard = place in unheard and each.sender is not None
            if is_open or is_unheard or place in found:
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


def _place(receipt: WaitingReceipt) -> tuple[str, WorkspaceId]:
    return receipt.id, receipt.workspace_id


def _report(receipt: WaitingReceipt, outbox_id: OutboxId) -> MessageReport:
    return MessageReport(
        outbox_id, receipt.event, receipt.effective_at, receipt.permanent, receipt.reason,
        receipt.receipt_id, receipt.text,
    )  # fmt: skip


def _names_item(receipt: WaitingReceipt) -> bool:
    return receipt.reference is not None or receipt.provider_message_id is not None


def _has_ended(item: MatchedItem) -> bool:
    """While a call is in progress, it is not known yet whether it counts as sent."""
    return item.status != ItemStatus.QUEUED.value


def _may_opt(receipt: WaitingReceipt) -> bool:
    return receipt.keyword is not None or state_of(receipt.event) in (
        DeliveryState.BOUNCED,
        DeliveryState.COMPLAINED,
    )


def _moved(
    matched: Sequence[ReceiptMatch], changed: Sequence[ChangedDelivery]
) -> list[MovedDeliveries]:
    reports = {item.id: each for each, item, _ in matched}
    return [
        MovedDeliveries(
            reports[each.outbox_id].scope, reports[each.outbox_id].submission_target, *each[1:]
        )
        for each in changed
    ]


def _strongest(matched: Sequence[ReceiptMatch], settled: set[OutboxId]) -> list[FoldedReceipt]:
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
