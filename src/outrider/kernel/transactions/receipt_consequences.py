"""What follows from receipts beside the delivery itself: opt-outs, opt-ins, and settled doubts.

All of it is written in the transaction that matches them, so that the next reservation sees it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.evidence import EvidenceKind
from outrider.domain.ids import OutboxId, Scope
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import ReceiptEvent
from outrider.domain.suppressions import SuppressionSource
from outrider.kernel.transactions import doubts, receipt_suppressions, receipts
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.doubts import Basis, DoubtVerdict
from outrider.kernel.transactions.receipt_answers import Addressed
from outrider.kernel.transactions.receipt_suppressions import ReportedOptOut
from outrider.kernel.transactions.receipts import MatchedItem, WaitingReceipt
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction

ACTOR = "receipts"

LatestWords = Mapping[tuple[str, str], OptOutWord]
"""By target and sender."""


class Followed(NamedTuple):
    """What was done, and who may be answered."""

    opted: list[Addressed]
    """The receipts that opted a person in or out."""
    stopped: list[Addressed]
    """Replies that caused a new opt-out, one for each address."""
    asked_for_help: list[Addressed]


def settle_doubts(
    matched: Iterable[tuple[WaitingReceipt, MatchedItem]], ids: IdSource, now: datetime
) -> Transaction[set[OutboxId]]:
    """A provider that reports on a message has taken it: the items of which that is proof."""
    groups: dict[tuple[Scope, str, str], list[OutboxId]] = {}
    for receipt, item in matched:
        if item.in_doubt and receipt.event is not ReceiptEvent.OPTED_IN:
            evidence = f"receipt: {receipt.submission_target} reported {receipt.event.value}"
            place = receipt.scope, receipt.submission_target, evidence
            groups.setdefault(place, []).append(item.id)
    settled: set[OutboxId] = set()
    for (scope, target, evidence), outbox_ids in sorted(groups.items()):
        left = sorted(set(outbox_ids) - settled)
        basis = Basis(EvidenceKind.RECEIPT, target)
        resolved = yield from doubts.resolve(
            scope, left, DoubtVerdict.SENT, evidence, ACTOR, ids, now, basis
        )
        settled.update(resolved)
    return settled


def follow(
    scope: Scope, addressed: Sequence[Addressed], ids: IdSource, now: datetime
) -> Transaction[Followed]:
    """Suppress and lift. A person's latest message counts, in whatever order they arrived."""
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
    lifted_places = sorted({(each.channel, each.address) for each in opt_ins})
    yield from receipt_suppressions.lock(scope, opt_outs, lifted_places)
    lifted = yield from receipt_suppressions.lift_stopped(scope, lifted_places)
    changed = yield from receipt_suppressions.suppress(scope, opt_outs, now)
    yield from _recorded(scope, Counter(each.source for each in changed), lifted, ids, now)
    new = {(each.channel, each.address) for each in changed}
    stops = {
        (each.channel, each.address.lower()): each
        for each, opt_out in reversed(reported)
        if opt_out is not None and opt_out.source is SuppressionSource.STOP
    }
    return Followed(
        [each for each, opt_out in reported if opt_out is not None] + opt_ins,
        [each for place, each in stops.items() if place in new],
        [each for each in addressed if each.receipt.keyword is OptOutWord.HELP],
    )


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
