"""What follows from receipts beside the delivery itself: opt-outs, opt-ins, and settled doubts.

All of it is written in the transaction that matches them, so that the next reservation sees it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import OutboxId, Scope
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import ReceiptEvent
from outrider.domain.suppressions import SuppressionSource
from outrider.kernel.transactions import doubts, receipt_suppressions, receipts
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.doubts import DoubtVerdict
from outrider.kernel.transactions.receipt_suppressions import ReportedOptOut
from outrider.kernel.transactions.receipts import MatchedItem, WaitingReceipt
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction

ACTOR = "receipts"

LatestWords = Mapping[tuple[str, str], OptOutWord]
"""By target and sender."""


class Addressed(NamedTuple):
    """A receipt with whom it is about: its item's recipient, or the sender of a reply."""

    receipt: WaitingReceipt
    channel: str
    address: str


def settle_doubts(
    matched: Iterable[tuple[WaitingReceipt, MatchedItem]], ids: IdSource, now: datetime
) -> Transaction[set[OutboxId]]:
    """A provider that reports on a message has taken it: the items of which that is proof."""
    groups: dict[tuple[Scope, str], list[OutboxId]] = {}
    for receipt, item in matched:
        if item.in_doubt and receipt.event is not ReceiptEvent.OPTED_IN:
            evidence = f"receipt: {receipt.submission_target} reported {receipt.event.value}"
            groups.setdefault((receipt.scope, evidence), []).append(item.id)
    settled: set[OutboxId] = set()
    for (scope, evidence), outbox_ids in sorted(groups.items()):
        resolved = yield from doubts.resolve(
            scope, sorted(set(outbox_ids) - settled), DoubtVerdict.SENT, evidence, ACTOR, ids, now
        )
        settled.update(resolved)
    return settled


def follow(
    scope: Scope, addressed: Sequence[Addressed], ids: IdSource, now: datetime
) -> Transaction[list[Addressed]]:
    """Suppress and lift; the receipts that asked for it. What somebody wrote last counts, whichever
    of their messages came first."""
    senders = sorted(
        {
            (each.receipt.submission_target, each.receipt.sender)
            for each in addressed
            if each.receipt.sender is not None
            and each.receipt.keyword in (OptOutWord.STOP, OptOutWord.START)
        }
    )
    latest = yield from receipts.latest_keywords(scope, senders)
    reported = [(each, _opt_out(each, latest)) for each in addressed]
    opt_outs = [opt_out for _, opt_out in reported if opt_out is not None]
    opt_ins = [each for each in addressed if _asks_for(each.receipt, latest) is OptOutWord.START]
    lifted = yield from receipt_suppressions.lift_stopped(
        scope, sorted({(each.channel, each.address) for each in opt_ins})
    )
    changed = yield from receipt_suppressions.suppress(scope, opt_outs, now)
    yield from _recorded(scope, changed, lifted, ids, now)
    return [each for each, opt_out in reported if opt_out is not None] + opt_ins


def _opt_out(each: Addressed, latest: LatestWords) -> ReportedOptOut | None:
    receipt = each.receipt
    evidence = f"receipt {receipt.id}"
    why = f": {receipt.reason}" if receipt.reason else ""
    match receipt.event:
        case ReceiptEvent.BOUNCED if receipt.permanent:
            source, reason = SuppressionSource.BOUNCE, f"bounced for good{why}"
        case ReceiptEvent.COMPLAINED:
            source, reason = SuppressionSource.COMPLAINT, f"complained{why}"
        case _ if _asks_for(receipt, latest) is OptOutWord.STOP:
            source, reason = SuppressionSource.STOP, f"asked to stop{why}"
        case _:
            return None
    return ReportedOptOut(each.channel, each.address, source, reason, evidence)


def _asks_for(receipt: WaitingReceipt, latest: LatestWords) -> OptOutWord | None:
    if receipt.keyword not in (OptOutWord.STOP, OptOutWord.START) or receipt.sender is None:
        return receipt.keyword
    return latest.get((receipt.submission_target, receipt.sender), receipt.keyword)


def _recorded(
    scope: Scope,
    changed: Mapping[SuppressionSource, int],
    lifted: int,
    ids: IdSource,
    now: datetime,
) -> Transaction[None]:
    """The audit log says how many; each suppression names its receipt."""
    entries = [
        AuditEntry(
            scope, "suppression.added", ACTOR,
            detail={"source": source.value, "addresses": count, "includesTransactional": True},
        )
        for source, count in sorted(changed.items())
    ]  # fmt: skip
    if lifted:
        detail: dict[str, object] = {"source": SuppressionSource.STOP.value, "addresses": lifted}
        entries.append(AuditEntry(scope, "suppression.removed", ACTOR, detail=detail))
    yield from record(entries, ids, now)
