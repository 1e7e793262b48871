"""Queues of the bus with message events: what is waiting in them, and what can be deleted.

A message event is deleted with the last row that is about it, in an outbox or a dead letter.
"""

from collections.abc import Collection
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.ids import OutboxId, Scope, TenantId, WorkspaceId
from outrider.domain.message_events import CallbackAddress, MessageEvent
from outrider.ports.store import Row, Transaction, Window, ask, ask_alone


class WaitingMessage(NamedTuple):
    """A message event that its queue still holds."""

    event: MessageEvent
    scope: Scope
    attempts: int
    due_at: datetime
    stream: str
    seq: int
    address: CallbackAddress | None


def is_any_waiting(queue: str) -> Transaction[bool]:
    rows = yield from ask_alone("bus_any_waiting", sink=queue)
    return bool(rows)


def window(queue: str, heads: Window, span: int) -> Transaction[list[WaitingMessage]]:
    """What waits of these streams in their order, up to `span` of each."""
    rows = yield from ask("message_window", heads, sink=queue, span=span)
    return [_waiting(row) for row in rows]


def _waiting(row: Row) -> WaitingMessage:
    stream, seq, type_, occurred_at, outbox_id, data, version = row[:7]
    tenant_id, workspace_id, attempts, due_at, url, disabled = row[7:]
    document = msgspec.json.decode(data, type=dict[str, object])
    return WaitingMessage(
        MessageEvent(seq, type_, occurred_at, OutboxId(outbox_id), document, version),
        Scope(TenantId(tenant_id), WorkspaceId(workspace_id)),
        attempts,
        due_at,
        stream,
        seq,
        None if url is None else CallbackAddress(url, bool(disabled)),
    )


def lock(sequences: Collection[int]) -> Transaction[None]:
    """Before rows about these events are deleted: two queues may come to the last of them."""
    yield from ask("lock_message_events", {"seq": sorted(sequences)})


def drop_told(sequences: Collection[int]) -> Transaction[None]:
    """Those of these events that no queue is waiting to deliver."""
    yield from ask("drop_told_message_events", {"seq": sorted(sequences)})
