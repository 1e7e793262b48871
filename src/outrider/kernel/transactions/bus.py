"""The event bus's outbox: which process relays, what is due in which order, and the results.

A queue is a sink's run events, its message events, or all callbacks (`domain/bus_queues.py`); all
are published, postponed, given up and redriven in the same way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, takewhile
from typing import NamedTuple

from outrider.domain.bus_queues import holds_messages, message_queue, sink_of
from outrider.domain.errors import NotFound
from outrider.domain.ids import (
    DEFAULT_SCOPE,
    Scope,
    TenantId,
    WorkspaceId,
)
from outrider.domain.message_events import CallbackAddress, MessageEvent
from outrider.domain.run_events import RunEvent
from outrider.kernel.transactions import callbacks, message_queues, run_log
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.paging import FIRST
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Rows, Transaction, Window, ask, ask_alone

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
    oldest_at: datetime | None
    """When the oldest event happened that waits, among as many as are counted."""


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
    """Its run, or the stream of its message: events of one stream are published in order."""
    run_seq: int
    address: CallbackAddress | None = None


class Postponed(NamedTuple):
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
class SettledWindow:
    """How a window ended: what was delivered, what is tried again, what is given up."""

    delivered: Sequence[Waiting]
    delayed: Sequence[Postponed]
    given_up: Sequence[DeadLetter]
    gone: str | None = None
    addresses_gone: Sequence[str] = ()
    """The streams of callbacks whose address said that it is gone."""


def register(names: Sequence[str], now: datetime) -> Transaction[None]:
    yield from ask("insert_bus_sinks", {"name": names}, now=now)


def sinks(counted: int) -> Transaction[list[SinkRecord]]:
    """`counted` is how far what waits is counted."""
    rows = yield from ask("bus_sinks", counted=counted)
    return [SinkRecord(*row) for row in rows]


def last_error(sink: str) -> Transaction[str | None]:
    rows = yield from ask_alone("bus_last_error", sink=sink)
    return rows[0][0] if rows else None


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
        messages = yield from message_queues.window(sink, place, span)
        return [
            Waiting(
                each.event, each.scope, each.attempts, each.due_at, each.stream, each.seq,
                each.address,
            )
            for each in messages
        ]  # fmt: skip
    rows = yield from ask("bus_window", place, sink=sink, span=span)
    return [_waiting(row) for row in rows]


def _waiting(row: Row) -> Waiting:
    attempts, due_at, tenant_id, workspace_id = row[EVENT_COLUMNS:]
    scope = Scope(TenantId(tenant_id), WorkspaceId(workspace_id))
    event = run_log.event_of(row)
    return Waiting(event, scope, attempts, due_at, event.run_id, event.run_seq)


def settle(
    sink: str,
    owner: str,
    lease_until: datetime,
    settled: SettledWindow,
    ids: IdSource,
    now: datetime,
) -> Transaction[bool]:
    """Record how a window ended; returns whether this relay still holds the lease. Deliveries count
    whoever holds the lease now; only its holder decides about the rest.
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
            "delay_bus_rows", dict(zip(Postponed._fields, columns, strict=True)), sink=sink, now=now
        )
    if given_up:
        yield from _give_up(sink, given_up, ids, now)
    if settled.gone is not None:
        yield from _disable(sink, settled.gone, ids, now)
    if settled.addresses_gone:
        yield from callbacks.disable(set(settled.addresses_gone), now)
    if holds_messages(sink) and settled.delivered:
        yield from message_queues.drop_told({each.run_seq for each in settled.delivered})
    return True


def _take_out(sink: str, done: Sequence[Waiting]) -> Transaction[None]:
    if holds_messages(sink):
        yield from message_queues.lock({each.run_seq for each in done})
    place: Window = {
        "run_id": [each.run_id for each in done],
        "run_seq": [each.run_seq for each in done],
    }
    yield from ask("delete_bus_rows", place, sink=sink)


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
            f"events could not be delivered to the sink '{sink_of(sink)}': {letter.error}",
            {"sink": sink, "error": letter.error, "attempts": letter.attempts},
        )
        yield from raise_alert(alert, ids, now)


def _disable(sink: str, why: str, ids: IdSource, now: datetime) -> Transaction[None]:
    disabled = yield from ask("disable_bus_sink", sink=sink, why=why, now=now)
    if disabled:
        message = f"the sink '{sink_of(sink)}' answered that it is gone; its events are waiting"
        detail: dict[str, object] = {"sink": sink, "error": why}
        alert = Alert(DEFAULT_SCOPE, AlertCode.EVENT_BUS_SINK_GONE, sink, message, detail)
        yield from raise_alert(alert, ids, now)


def enable(sink: str, now: datetime) -> Transaction[None]:
    enabled = yield from ask("enable_bus_sink", sink=sink)
    if not enabled:
        raise no_sink(sink)
    yield from resolve(AlertCode.EVENT_BUS_SINK_GONE, sink, DEFAULT_SCOPE, now)


def enable_messages(queue: str, now: datetime) -> Transaction[None]:
    """A sink of an older release has no queue of messages yet."""
    yield from ask("enable_bus_sink", sink=queue)
    yield from resolve(AlertCode.EVENT_BUS_SINK_GONE, queue, DEFAULT_SCOPE, now)


def forget_sink(sink: str) -> Transaction[bool]:
    rows = yield from ask("forget_bus_sink", sink=sink)
    return bool(rows)


def forget_waiting(sink: str, most: int) -> Transaction[int]:
    rows = yield from ask("forget_bus_rows", sink=sink, most=most)
    return (yield from _with_their_events(sink, rows))


def forget_letters(sink: str, most: int) -> Transaction[int]:
    rows = yield from ask("forget_bus_letters", sink=sink, most=most)
    return (yield from _with_their_events(sink, rows))


def _with_their_events(sink: str, gone: Rows) -> Transaction[int]:
    """A run's log keeps its events; message events are deleted once no other sink is waiting for
    them."""
    if gone and holds_messages(sink):
        yield from message_queues.drop_told({row[0] for row in gone})
    return len(gone)


def resolve(code: AlertCode, sink: str, scope: Scope, now: datetime) -> Transaction[None]:
    yield from ask(
        "resolve_bus_alert",
        code=code.value,
        sink=sink,
        workspace_id=scope.workspace_id,
        now=now,
    )


def no_sink(sink: str) -> NotFound:
    return NotFound(f"there is no sink '{sink}'", hint="`outrider bus sinks` lists the sinks")


class Forgotten(NamedTuple):
    """What was deleted with a sink: its waiting events and its dead letters."""

    waiting: int
    dead_letters: int


def resume(sink: str, actor: str, ids: IdSource, now: datetime) -> Transaction[None]:
    yield from enable(sink, now)
    yield from enable_messages(message_queue(sink), now)
    yield from recorded(DEFAULT_SCOPE, "bus.sink_resumed", actor, ids, now, sink=sink)


def record_forgotten(
    sink: str, forgotten: Forgotten, actor: str, ids: IdSource, now: datetime
) -> Transaction[None]:
    for queue in (sink, message_queue(sink)):
        for code in (AlertCode.EVENT_BUS_DEAD_LETTER, AlertCode.EVENT_BUS_SINK_GONE):
            yield from resolve_alert(code, queue, now)
    counts = forgotten._asdict()
    yield from recorded(DEFAULT_SCOPE, "bus.sink_forgotten", actor, ids, now, sink=sink, **counts)


def recorded(
    scope: Scope, event: str, actor: str, ids: IdSource, now: datetime, **detail: object
) -> Transaction[None]:
    yield from record([AuditEntry(scope, event, actor, detail=detail)], ids, now)


def due(
    sink: str, after: str, most_runs: int, most_events: int, now: datetime
) -> Transaction[tuple[list[Waiting], str]]:
    """The next runs' events that are due, and after which run to look next. Of each run only what
    no earlier event holds up."""
    found = yield from heads(sink, after, most_runs)
    after = found[-1].run_id if len(found) == most_runs else FIRST
    of_runs = [head for head in found if head.due_at <= now]
    if not of_runs:
        return [], after
    waiting = yield from window(sink, of_runs, max(1, most_events // len(of_runs)))
    ready = [
        each
        for _, of_run in groupby(waiting, key=lambda each: each.run_id)
        for each in takewhile(lambda each: each.due_at <= now, of_run)
    ]
    return ready, after
