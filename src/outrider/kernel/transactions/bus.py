"""The event bus's outbox: who relays, what is due in which order, and how telling it ended.

A queue is a sink's run events, its message events, or all callbacks (`domain/bus_queues.py`); all
are told, put off, given up on and redriven in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import msgspec

from outrider.domain.bus_queues import CALLBACKS, holds_messages, sink_of
from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import (
    DEFAULT_SCOPE,
    OutboxId,
    Scope,
    TenantId,
    WorkspaceId,
    is_uuid,
)
from outrider.domain.message_events import CallbackAddress, MessageEvent
from outrider.domain.run_events import RunEvent
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Rows, Transaction, Window, ask, ask_alone

ADDRESS_GONE = "http_410"
EVENT_COLUMNS = 12
"""How many columns of a row are the event's own."""


class SinkRecord(NamedTuple):
    name: str
    owner: str | None
    lease_expires_at: datetime | None
    published: int
    failed: int
    disabled_at: datetime | None
    disabled_why: str | None
    created_at: datetime
    waiting: int
    dead_letters: int


class Head(NamedTuple):
    """The first event of a run, or of a stream of messages, that its queue still holds."""

    run_id: str
    run_seq: int
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that its sink has still to hear, and how often it was tried."""

    event: RunEvent | MessageEvent
    scope: Scope
    attempts: int
    due_at: datetime
    run_id: str
    """Its run, or the stream of its message: those of one are told in order."""
    run_seq: int
    address: CallbackAddress | None = None


class Delay(NamedTuple):
    run_id: str
    run_seq: int
    due_at: datetime
    error: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event given up on."""

    waiting: Waiting
    attempts: int
    error: str


@dataclass(frozen=True, slots=True)
class Settled:
    """How a window ended: what was told, what is tried again, what is given up on."""

    delivered: Sequence[Waiting]
    delayed: Sequence[Delay]
    given_up: Sequence[DeadLetter]
    gone: str | None = None
    addresses_gone: Sequence[str] = ()
    """The streams of callbacks whose address said that it is gone."""


class LetterRecord(NamedTuple):
    id: str
    sink: str
    run_id: str
    run_seq: int
    type: str
    attempts: int
    error: str
    created_at: datetime
    redriven_at: datetime | None
    outbox_id: str | None = None
    """The item that a message event is about; a run event has none."""


def register(names: Sequence[str], now: datetime) -> Transaction[None]:
    yield from ask("insert_bus_sinks", {"name": names}, now=now)


def sinks(counted: int) -> Transaction[list[SinkRecord]]:
    """`counted` is how far what waits is counted."""
    rows = yield from ask("bus_sinks", counted=counted)
    return [SinkRecord(*row) for row in rows]


def take_lease(
    sink: str, owner: str, lease_until: datetime, now: datetime, *, dead_owner: str | None = None
) -> Transaction[bool]:
    rows = yield from ask(
        "take_bus_lease",
        sink=sink,
        owner=owner,
        dead_owner=dead_owner,
        lease_expires_at=lease_until,
        now=now,
    )
    return bool(rows)


def lease_owner(sink: str) -> Transaction[str | None]:
    rows = yield from ask("bus_lease_owner", sink=sink)
    return rows[0][0] if rows else None


def release_lease(sink: str, owner: str) -> Transaction[None]:
    yield from ask("release_bus_lease", sink=sink, owner=owner)


def heads(sink: str, after: str, most: int) -> Transaction[list[Head]]:
    """Of each run behind this one the first event that waits, by run."""
    rows = yield from ask("bus_heads", sink=sink, after=after, heads=most)
    return sorted(Head(*row) for row in rows)


def window(sink: str, due: Sequence[Head], span: int) -> Transaction[list[Waiting]]:
    """What waits of these runs in their order, up to `span` sequences of each."""
    runs, sequences = [head.run_id for head in due], [head.run_seq for head in due]
    place: Window = {"run_id": runs, "run_seq": sequences}
    if holds_messages(sink):
        rows = yield from ask("message_window", place, sink=sink, span=span)
        return [_waiting_message(row) for row in rows]
    rows = yield from ask("bus_window", place, sink=sink, span=span)
    return [_waiting(row) for row in rows]


def is_any_waiting(sink: str) -> Transaction[bool]:
    rows = yield from ask_alone("bus_any_waiting", sink=sink)
    return bool(rows)


def _waiting(row: Row) -> Waiting:
    attempts, due_at, tenant_id, workspace_id = row[EVENT_COLUMNS:]
    scope = Scope(TenantId(tenant_id), WorkspaceId(workspace_id))
    event = run_log.event_of(row)
    return Waiting(event, scope, attempts, due_at, event.run_id, event.run_seq)


def _waiting_message(row: Row) -> Waiting:
    stream, seq, type_, occurred_at, outbox_id, data, version = row[:7]
    tenant_id, workspace_id, attempts, due_at, url, disabled = row[7:]
    document = msgspec.json.decode(data, type=dict[str, object])
    return Waiting(
        MessageEvent(seq, type_, occurred_at, OutboxId(outbox_id), document, version),
        Scope(TenantId(tenant_id), WorkspaceId(workspace_id)),
        attempts,
        due_at,
        stream,
        seq,
        None if url is None else CallbackAddress(url, bool(disabled)),
    )


def settle(
    sink: str, owner: str, lease_until: datetime, settled: Settled, ids: IdSource, now: datetime
) -> Transaction[bool]:
    """Write down how a window ended; whether the lease is still this relay's.

    What was told was told, whoever has the lease now. The rest is the lease holder's to judge.
    """
    given_up = settled.given_up
    rows = yield from ask(
        "count_bus_deliveries",
        sink=sink,
        owner=owner,
        published=len(settled.delivered),
        failed=len(settled.delayed) + len(given_up),
        lease_expires_at=lease_until,
    )
    held = bool(rows and rows[0][0])
    done = list(settled.delivered)
    if held:
        done += [letter.waiting for letter in given_up]
    if done:
        yield from _take_out(sink, done)
    if not held:
        return False
    if settled.delayed:
        columns = zip(*settled.delayed, strict=True)
        yield from ask(
            "delay_bus_rows", dict(zip(Delay._fields, columns, strict=True)), sink=sink, now=now
        )
    if given_up:
        yield from _give_up(sink, given_up, ids, now)
    if settled.gone is not None:
        yield from _disable(sink, settled.gone, ids, now)
    if settled.addresses_gone:
        gone = {"id": sorted(set(settled.addresses_gone))}
        yield from ask("disable_callback_endpoints", gone, why=ADDRESS_GONE, now=now)
    if holds_messages(sink) and settled.delivered:
        yield from ask("drop_told_message_events", _sequences(settled.delivered))
    return True


def _take_out(sink: str, done: Sequence[Waiting]) -> Transaction[None]:
    if holds_messages(sink):
        yield from ask("lock_message_events", _sequences(done))
    place: Window = {
        "run_id": [each.run_id for each in done],
        "run_seq": [each.run_seq for each in done],
    }
    yield from ask("delete_bus_rows", place, sink=sink)


def _sequences(done: Sequence[Waiting]) -> Window:
    return {"seq": sorted(each.run_seq for each in done)}


def _give_up(
    sink: str, letters: Sequence[DeadLetter], ids: IdSource, now: datetime
) -> Transaction[None]:
    yield from ask(
        "insert_bus_letters",
        {
            "id": ids.batch(len(letters)),
            "tenant_id": [letter.waiting.scope.tenant_id for letter in letters],
            "workspace_id": [letter.waiting.scope.workspace_id for letter in letters],
            "run_id": [letter.waiting.run_id for letter in letters],
            "run_seq": [letter.waiting.run_seq for letter in letters],
            "attempts": [letter.attempts for letter in letters],
            "error": [letter.error for letter in letters],
        },
        sink=sink,
        now=now,
    )
    # One alert a workspace, and in the order of their ids: two relays may raise some at once.
    latest = {letter.waiting.scope: letter for letter in letters}
    for scope in sorted(latest):
        letter = latest[scope]
        alert = Alert(
            scope,
            AlertCode.EVENT_BUS_DEAD_LETTER,
            sink,
            f"the sink '{sink_of(sink)}' could not be told of events: {letter.error}",
            {"sink": sink, "error": letter.error, "attempts": letter.attempts},
        )
        yield from raise_alert(alert, ids, now)


def _disable(sink: str, why: str, ids: IdSource, now: datetime) -> Transaction[None]:
    disabled = yield from ask("disable_bus_sink", sink=sink, why=why, now=now)
    if disabled:
        message = f"the sink '{sink_of(sink)}' said it is gone; what it has not heard waits"
        detail: dict[str, object] = {"sink": sink, "error": why}
        alert = Alert(DEFAULT_SCOPE, AlertCode.EVENT_BUS_SINK_GONE, sink, message, detail)
        yield from raise_alert(alert, ids, now)


def enable(sink: str, now: datetime) -> Transaction[None]:
    enabled = yield from ask("enable_bus_sink", sink=sink)
    if not enabled:
        raise no_sink(sink)
    yield from _resolve(AlertCode.EVENT_BUS_SINK_GONE, sink, DEFAULT_SCOPE, now)


def enable_messages(queue: str, now: datetime) -> Transaction[None]:
    """A sink of an older release has no queue of messages yet."""
    yield from ask("enable_bus_sink", sink=queue)
    yield from _resolve(AlertCode.EVENT_BUS_SINK_GONE, queue, DEFAULT_SCOPE, now)


def letters_page(
    scope: Scope, after: str, most: int, *, only_waiting: bool
) -> Transaction[list[LetterRecord]]:
    rows = yield from ask(
        "bus_letters_page", **scope._asdict(), after=after, only_waiting=only_waiting, most=most
    )
    return [LetterRecord(*row) for row in rows]


def redrive_one(scope: Scope, letter_id: str, now: datetime) -> Transaction[str]:
    """Returns the sink that will be told again."""
    found = []
    if is_uuid(letter_id):
        found = list((yield from ask("bus_letter", **scope._asdict(), id=letter_id)))
    if not found:
        raise NotFound(f"there is no dead letter {letter_id}")
    sink: str = found[0][0]
    redriven = yield from redrive(scope, [letter_id], now)
    if not redriven:
        if found[0][1] is not None:
            raise Conflict(f"the dead letter {letter_id} was redriven before")
        raise Conflict(
            f"the sink '{sink}' of the dead letter {letter_id} is not registered",
            hint="start a process whose settings name it, then redrive again",
        )
    return sink


def redrive(scope: Scope, letter_ids: Sequence[str], now: datetime) -> Transaction[int]:
    """Put letters back into the outbox, as if never tried; how many they were.

    Where a sink has none left of the workspace, its alert is over.
    """
    marked = yield from ask("mark_bus_letters", {"id": letter_ids}, **scope._asdict(), now=now)
    if not marked:
        return 0
    again = {
        "sink": [row[1] for row in marked],
        "run_id": [row[2] for row in marked],
        "run_seq": [row[3] for row in marked],
    }
    yield from ask("requeue_bus_rows", again, now=now)
    addresses = sorted({row[2] for row in marked if row[1] == CALLBACKS})
    if addresses:
        # Who asks for it once more says that somebody is there again.
        yield from ask("enable_callback_endpoints", {"id": addresses})
    for sink in sorted({row[1] for row in marked}):
        left = yield from ask("bus_letters_left", sink=sink, workspace_id=scope.workspace_id)
        if not left[0][0]:
            yield from _resolve(AlertCode.EVENT_BUS_DEAD_LETTER, sink, scope, now)
    return len(marked)


def forget_sink(sink: str) -> Transaction[bool]:
    rows = yield from ask("forget_bus_sink", sink=sink)
    return bool(rows)


def forget_waiting(sink: str, most: int) -> Transaction[int]:
    if holds_messages(sink):
        gone = yield from ask("forget_message_rows", sink=sink, most=most)
        return (yield from _without_events(gone))
    rows = yield from ask("forget_bus_rows", sink=sink, most=most)
    return len(rows)


def forget_letters(sink: str, most: int) -> Transaction[int]:
    if holds_messages(sink):
        gone = yield from ask("forget_message_letters", sink=sink, most=most)
        return (yield from _without_events(gone))
    rows = yield from ask("forget_bus_letters", sink=sink, most=most)
    return len(rows)


def _without_events(gone: Rows) -> Transaction[int]:
    """The events go with them, where nobody else has still to hear of them."""
    if gone:
        yield from ask("drop_told_message_events", {"seq": sorted({row[0] for row in gone})})
    return len(gone)


def _resolve(code: AlertCode, sink: str, scope: Scope, now: datetime) -> Transaction[None]:
    yield from ask(
        "resolve_bus_alert",
        code=code.value,
        sink=sink,
        workspace_id=scope.workspace_id,
        now=now,
    )


def no_sink(sink: str) -> NotFound:
    return NotFound(f"there is no sink '{sink}'", hint="`outrider bus sinks` shows those there are")
