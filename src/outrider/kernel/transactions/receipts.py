"""Receipts as they are kept: taken once, waiting for their item, listed, and whose they are.

The inbox is append-only. What still has to find its item is in a queue beside it.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from outrider.domain.errors import NotFound
from outrider.domain.ids import OutboxId, RunId, Scope, TenantId, WorkspaceId, is_uuid
from outrider.domain.opt_out_words import OptOutWord
from outrider.domain.receipts import Receipt, ReceiptEvent
from outrider.domain.retention import receipt_memory_key
from outrider.domain.texts import storable
from outrider.kernel.transactions.alerts import LAST
from outrider.ports.clock import IdSource
from outrider.ports.store import Rows, Transaction, Window, ask, ask_alone

_REFERENCE = re.compile(r"[0-9a-f]{64}\Z")


class MatchedBy(StrEnum):
    """How it is known of which item a receipt is."""

    REFERENCE = "reference"
    PROVIDER_MESSAGE_ID = "provider_message_id"
    PERSON = "person"


class TakenReceipt(NamedTuple):
    """A verified receipt of a target, on its way into the inbox."""

    submission_target: str
    receipt: Receipt
    keyword: OptOutWord | None = None

    @property
    def is_urgent(self) -> bool:
        """It may opt a person out, who should get no more messages meanwhile. In Postgres
        `insert_receipts` has the same condition."""
        receipt = self.receipt
        return (
            self.keyword is not None
            or receipt.event is ReceiptEvent.COMPLAINED
            or (receipt.event is ReceiptEvent.BOUNCED and receipt.permanent)
        )


class WaitingReceipt(NamedTuple):
    """A receipt to be matched; `effective_at` is when it happened, as far as is known."""

    id: str
    tenant_id: TenantId
    workspace_id: WorkspaceId
    submission_target: str
    receipt_id: str
    event: ReceiptEvent
    reference: str | None
    provider_message_id: str | None
    permanent: bool
    reason: str
    sender: str | None
    text: str | None
    keyword: OptOutWord | None
    effective_at: datetime
    looks: int
    urgent: bool

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant_id, self.workspace_id)


class OfTarget(Protocol):
    """Something that a target's provider said of a message."""

    @property
    def tenant_id(self) -> TenantId: ...

    @property
    def workspace_id(self) -> WorkspaceId: ...

    @property
    def submission_target(self) -> str: ...


class MatchedItem(NamedTuple):
    """An item of the ledger, as far as its receipts ask."""

    id: OutboxId
    run_id: RunId | None
    channel: str
    address: str | None
    status: str
    in_doubt: bool
    is_heard: bool
    """A sink or callback is waiting for it."""

    @classmethod
    def of(cls, row: Sequence[Any]) -> "MatchedItem":
        outbox_id, run_id, channel, address, status, in_doubt, is_heard = row
        return cls(outbox_id, run_id, channel, address, status, bool(in_doubt), bool(is_heard))


class StoredReceipt(NamedTuple):
    """A receipt as listed. `looks` and `look_at` are set while it is unmatched; without `look_at`,
    matching has been given up."""

    id: str
    submission_target: str
    receipt_id: str
    event: ReceiptEvent
    reference: str | None
    provider_message_id: str | None
    permanent: bool
    reason: str
    sender: str | None
    text: str | None
    keyword: OptOutWord | None
    occurred_at: datetime | None
    received_at: datetime
    outbox_id: OutboxId | None
    matched_by: MatchedBy | None
    looks: int | None
    look_at: datetime | None


def take(
    scope: Scope, taken: Sequence[TakenReceipt], ids: IdSource, now: datetime
) -> Transaction[list[TakenReceipt]]:
    """Write those that are new, to be matched at once; which of them were."""
    by_id = dict(zip(ids.batch(len(taken)), taken, strict=True))
    # One order of rows for everybody: two servers that get the same receipts would wait for each
    # other. The ids are in the order in which they came, and of two alike the first stays first.
    ordered = sorted(
        by_id.items(), key=lambda each: (each[1].submission_target, each[1].receipt.receipt_id)
    )
    receipts = [each.receipt for _, each in ordered]
    # Where that is the only statement, it needs no transaction around it.
    rows = yield from ask_alone(
        "insert_receipts",
        {
            "id": [id for id, _ in ordered],
            "submission_target": [each.submission_target for _, each in ordered],
            "receipt_id": [storable(each.receipt_id) for each in receipts],
            "event": [each.event.value for each in receipts],
            "reference": [storable(each.reference) for each in receipts],
            "provider_message_id": [storable(each.provider_message_id) for each in receipts],
            "permanent": [each.permanent for each in receipts],
            "reason": [storable(each.reason) for each in receipts],
            "sender": [storable(each.sender) for each in receipts],
            "text": [storable(each.text) for each in receipts],
            "keyword": [each.keyword for _, each in ordered],
            "occurred_at": [each.occurred_at for each in receipts],
            "memory_key": [
                receipt_memory_key(each.submission_target, storable(each.receipt.receipt_id) or "")
                for _, each in ordered
            ],
        },
        **scope._asdict(),
        now=now,
    )
    new = sorted(row[0] for row in rows)
    if not all(is_queued for _, is_queued in rows):
        fresh = [by_id[each] for each in new]
        window: Window = {
            "id": new,
            "workspace_id": [scope.workspace_id] * len(new),
            "submission_target": [each.submission_target for each in fresh],
            "urgent": [each.is_urgent for each in fresh],
            "looks": [0] * len(new),
            "look_at": [now] * len(new),
        }
        yield from ask("insert_waiting_receipts", window)
    return [by_id[each] for each in new]


def count_sought(scope: Scope, submission_target: str, most: int) -> Transaction[int]:
    """How many of the target's receipts were looked for in vain, and are looked for again."""
    rows = yield from ask_alone(
        "count_sought_receipts",
        workspace_id=scope.workspace_id,
        submission_target=submission_target,
        most=most,
    )
    count: int = rows[0][0]
    return count


def claim(most_urgent: int, most_others: int, now: datetime) -> Transaction[list[WaitingReceipt]]:
    """The oldest that are due of the urgent ones and of the others. Whoever has them puts back what
    found no item; nobody else sees them before its transaction ends."""
    claimed = yield from ask(
        "claim_receipts", most_urgent=most_urgent, most_others=most_others, now=now
    )
    return (yield from _contents(claimed))


def claim_one(scope: Scope, id: str) -> Transaction[WaitingReceipt | None]:
    """This one, unless it has found its item."""
    if not is_uuid(id):
        return None
    claimed = yield from ask("claim_receipt", workspace_id=scope.workspace_id, id=id)
    found = yield from _contents(claimed)
    return found[0] if found else None


def next_due() -> Transaction[datetime | None]:
    """When the next one is due to be matched."""
    rows = yield from ask_alone("next_receipt_due")
    due_at: datetime | None = rows[0][0]
    return due_at


def reference_of(receipt: WaitingReceipt) -> str | None:
    """Our own reference, if the provider returned it."""
    written = receipt.reference.lower() if receipt.reference is not None else ""
    return written if _REFERENCE.match(written) else None


def items_by_reference(
    wanted: Mapping[int, tuple[OfTarget, str]],
) -> Transaction[dict[int, MatchedItem]]:
    """The items with these keys, by the caller's own numbers."""
    rows = yield from ask("items_of_references", _places(wanted, "key"))
    return _items(rows)


def items_by_provider_message(
    wanted: Mapping[int, tuple[OfTarget, str]],
) -> Transaction[dict[int, MatchedItem]]:
    """The items with these ids of their provider, where each is the only one."""
    rows = yield from ask("items_of_provider_messages", _places(wanted, "message_id"))
    return _items(rows)


def item_by_id(scope: Scope, outbox_id: OutboxId) -> Transaction[MatchedItem | None]:
    if not is_uuid(outbox_id):
        return None
    rows = yield from ask("item_of_receipt", **scope._asdict(), outbox_id=outbox_id)
    return _items(rows).get(0)


def settle(
    matched: Sequence[tuple[WaitingReceipt, OutboxId, MatchedBy]], now: datetime
) -> Transaction[None]:
    """They have their items."""
    if not matched:
        return
    yield from ask(
        "insert_item_receipts",
        {
            "outbox_id": [outbox_id for _, outbox_id, _ in matched],
            "id": [receipt.id for receipt, _, _ in matched],
            "matched_by": [how.value for _, _, how in matched],
        },
        now=now,
    )


def put_back(
    receipts: Sequence[tuple[WaitingReceipt, datetime | None]],
) -> Transaction[None]:
    """They were looked for in vain: look again then, or never."""
    if receipts:
        window: Window = {
            "id": [receipt.id for receipt, _ in receipts],
            "workspace_id": [receipt.workspace_id for receipt, _ in receipts],
            "submission_target": [receipt.submission_target for receipt, _ in receipts],
            "urgent": [receipt.urgent for receipt, _ in receipts],
            "looks": [receipt.looks + 1 for receipt, _ in receipts],
            "look_at": [look_at for _, look_at in receipts],
        }
        yield from ask("insert_waiting_receipts", window)


def latest_keywords(
    scope: Scope, senders: Sequence[tuple[str, str]]
) -> Transaction[dict[tuple[str, str], OptOutWord]]:
    """Of each (target, sender): which of STOP and START came last, by when it was written."""
    if not senders:
        return {}
    rows = yield from ask(
        "latest_keywords",
        {
            "place": range(len(senders)),
            "submission_target": [target for target, _ in senders],
            "sender": [sender for _, sender in senders],
        },
        **scope._asdict(),
    )
    return {senders[place]: OptOutWord(keyword) for place, keyword in rows}


def page(
    scope: Scope,
    submission_target: str | None,
    most: int,
    *,
    before: str = LAST,
    only_matched: bool = False,
    only_unmatched: bool = False,
) -> Transaction[list[StoredReceipt]]:
    """Those of a workspace, or of one of its targets, newest first."""
    given = {
        **scope._asdict(),
        "submission_target": submission_target,
        "before": before,
        "most": most,
    }
    if only_unmatched:
        return stored((yield from ask("unmatched_receipts_page", **given)))
    return stored((yield from ask("receipts_page", **given, only_matched=only_matched)))


def receipt(scope: Scope, id: str) -> Transaction[StoredReceipt]:
    rows = (yield from ask("receipt_by_id", **scope._asdict(), id=id)) if is_uuid(id) else ()
    if not rows:
        raise NotFound(f"there is no receipt {id}")
    return stored(rows)[0]


def of_item(scope: Scope, outbox_id: OutboxId, most: int) -> Transaction[list[StoredReceipt]]:
    """The receipts of an item, in the order in which they came."""
    if not is_uuid(outbox_id):
        return []
    rows = yield from ask("receipts_of_item", **scope._asdict(), outbox_id=outbox_id, most=most)
    return stored(rows)


def _places(wanted: Mapping[int, tuple[OfTarget, str]], name: str) -> dict[str, Sequence[object]]:
    receipts = [receipt for receipt, _ in wanted.values()]
    return {
        "place": list(wanted),
        "tenant_id": [each.tenant_id for each in receipts],
        "workspace_id": [each.workspace_id for each in receipts],
        "submission_target": [each.submission_target for each in receipts],
        name: [text for _, text in wanted.values()],
    }


def _items(rows: Rows) -> dict[int, MatchedItem]:
    found: dict[int, MatchedItem] = {}
    ambiguous = set()
    for place, *item in rows:
        if place in found:
            ambiguous.add(place)
        found[place] = MatchedItem.of(item)
    return {place: item for place, item in found.items() if place not in ambiguous}


def _contents(claimed: Rows) -> Transaction[list[WaitingReceipt]]:
    if not claimed:
        return []
    window: Window = {
        "id": [row[0] for row in claimed],
        "workspace_id": [row[1] for row in claimed],
        "looks": [row[2] for row in claimed],
        "urgent": [bool(row[3]) for row in claimed],
    }
    rows = yield from ask("claimed_receipts", window)
    return [
        WaitingReceipt(
            id, tenant_id, workspace_id, target, receipt_id, ReceiptEvent(event), reference,
            message_id, bool(permanent), reason, sender, text,
            OptOutWord(keyword) if keyword else None, effective_at, looks, bool(urgent),
        )
        for id, tenant_id, workspace_id, target, receipt_id, event, reference, message_id,
            permanent, reason, sender, text, keyword, effective_at, looks, urgent in rows
    ]  # fmt: skip


def stored(rows: Rows) -> list[StoredReceipt]:
    return [
        StoredReceipt(
            id, target, receipt_id, ReceiptEvent(event), reference, message_id, bool(permanent),
            reason, sender, text, OptOutWord(keyword) if keyword else None, occurred_at,
            received_at, outbox_id, MatchedBy(matched_by) if matched_by else None, looks, look_at,
        )
        for id, target, receipt_id, event, reference, message_id, permanent, reason, sender, text,
            keyword, occurred_at, received_at, outbox_id, matched_by, looks, look_at in rows
    ]  # fmt: skip
