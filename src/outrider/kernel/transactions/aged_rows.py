"""Single messages, events and receipts that are retired by their age, a window at a time.

What is removed leaves its key: a repeat of it is recognised, and not sent, while the memory lasts.
"""

from datetime import datetime
from typing import NamedTuple

from outrider.domain.ids import IdempotencyKey
from outrider.domain.retention import event_memory_key, receipt_memory_key
from outrider.kernel.transactions import retired_keys, retirement
from outrider.kernel.transactions.retirement import RetiredItem
from outrider.ports.store import Transaction, Window, ask, ask_alone


class Aged(NamedTuple):
    """Which rows are looked at: behind this id and before that one, unchanged since `before`."""

    after: str
    until: str
    before: datetime
    most: int


class AgedWindow(NamedTuple):
    """How many rows were looked at and removed, and the last of them."""

    looked_at: int
    removed: int
    last: str


def items(aged: Aged, forget_at: datetime) -> Transaction[AgedWindow]:
    """Intents and messages of workflows that have ended."""
    rows = yield from ask("aged_items", **aged._asdict())
    due = [row for row in rows if row[4]]
    for workspace_id in sorted({row[1] for row in due}):
        own = [row for row in due if row[1] == workspace_id]
        keys = [(workspace_id, IdempotencyKey(row[2])) for row in own]
        yield from retired_keys.remember(keys, forget_at)
        yield from retirement.remove_items(
            [RetiredItem(row[0], row[3]) for row in own], workspace_id, forget_at
        )
    return AgedWindow(len(rows), len(due), rows[-1][0] if rows else aged.after)


def events(aged: Aged, forget_at: datetime) -> Transaction[AgedWindow]:
    rows = yield from ask("aged_events", **aged._asdict())
    due = [row for row in rows if row[3]]
    if due:
        keys = [(row[1], event_memory_key(row[2])) for row in due]
        yield from retired_keys.remember(keys, forget_at)
        window: Window = {"id": [row[0] for row in due]}
        yield from ask("remove_event_people", window)
        yield from ask("remove_digest_entries", window)
        yield from ask("remove_domain_events", window)
    return AgedWindow(len(rows), len(due), rows[-1][0] if rows else aged.after)


def digests(aged: Aged) -> Transaction[AgedWindow]:
    rows = yield from ask("aged_digests", **aged._asdict())
    due = [row[0] for row in rows if row[1]]
    if due:
        yield from ask("remove_digests", {"id": due})
    return AgedWindow(len(rows), len(due), rows[-1][0] if rows else aged.after)


def receipts(workspace_id: str, aged: Aged, forget_at: datetime) -> Transaction[AgedWindow]:
    """Those that match no item; the others go with theirs."""
    rows = yield from ask("aged_receipts", workspace_id=workspace_id, **aged._asdict())
    due = [row for row in rows if row[3]]
    if due:
        keys = [(workspace_id, receipt_memory_key(row[1], row[2])) for row in due]
        yield from retired_keys.remember(keys, forget_at)
        window: Window = {"id": [row[0] for row in due]}
        yield from ask("list_retiring_rows", window)
        yield from ask("remove_waiting_receipts", window)
        yield from ask("remove_passed_receipts", window, workspace_id=workspace_id)
        yield from ask("remove_receipts", window, workspace_id=workspace_id)
        yield from ask("clear_retiring_rows", window)
    return AgedWindow(len(rows), len(due), rows[-1][0] if rows else aged.after)


def workspaces_after(after: str, most: int) -> Transaction[list[str]]:
    rows = yield from ask_alone("workspaces_after", after=after, most=most)
    return [row[0] for row in rows]


def count_items(aged: Aged) -> Transaction[AgedWindow]:
    rows = yield from ask("aged_items", **aged._asdict())
    return AgedWindow(
        len(rows), sum(bool(row[4]) for row in rows), rows[-1][0] if rows else aged.after
    )
