"""The event bus's outbox: who relays, what is due in which order, and how telling it ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, takewhile
from typing import NamedTuple

from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import DEFAULT_SCOPE, RunId, Scope, TenantId, WorkspaceId, is_uuid
from outrider.domain.run_events import RunEvent
from outrider.kernel.transactions import run_log
from outrider.kernel.transactions.alerts import Alert, AlertCode, raise_alert, resolve_alert
from outrider.kernel.transactions.audit import AuditEntry, record
from outrider.kernel.transactions.paging import FIRST
from outrider.ports.clock import IdSource
from outrider.ports.store import Row, Transaction, ask

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
    """The first event of a run that its sink has not heard."""

    run_id: RunId
    run_seq: int
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Waiting:
    """An event that its sink has still to hear, and how often it was tried."""

    event: RunEvent
    scope: Scope
    attempts: int
    due_at: datetime


class Delay(NamedTuple):
    run_id: RunId
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

    delivered: Sequence[RunEvent]
    delayed: Sequence[Delay]
    given_up: Sequence[DeadLetter]
    gone: str | None = None


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
    rows = yield from ask(
        "bus_window", {"run_id": runs, "run_seq": sequences}, sink=sink, span=span
    )
    return [_waiting(row) for row in rows]


def _waiting(row: Row) -> Waiting:
    attempts, due_at, tenant_id, workspace_id = row[EVENT_COLUMNS:]
    scope = Scope(TenantId(tenant_id), WorkspaceId(workspace_id))
    return Waiting(run_log.event_of(row), scope, attempts, due_at)


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
        done += [letter.waiting.event for letter in given_up]
    if done:
        runs, sequences = [event.run_id for event in done], [event.run_seq for event in done]
        yield from ask("delete_bus_rows", {"run_id": runs, "run_seq": sequences}, sink=sink)
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
    return True


def _give_up(
    sink: str, letters: Sequence[DeadLetter], ids: IdSource, now: datetime
) -> Transaction[None]:
    yield from ask(
        "insert_bus_letters",
        {
            "id": ids.batch(len(letters)),
            "tenant_id": [letter.waiting.scope.tenant_id for letter in letters],
            "workspace_id": [letter.waiting.scope.workspace_id for letter in letters],
            "run_id": [letter.waiting.event.run_id for letter in letters],
            "run_seq": [letter.waiting.event.run_seq for letter in letters],
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
            f"events could not be delivered to the sink '{sink}': {letter.error}",
            {"sink": sink, "error": letter.error, "attempts": letter.attempts},
        )
        yield from raise_alert(alert, ids, now)


def _disable(sink: str, why: str, ids: IdSource, now: datetime) -> Transaction[None]:
    disabled = yield from ask("disable_bus_sink", sink=sink, why=why, now=now)
    if disabled:
        message = f"the sink '{sink}' answered that it is gone; its events are waiting"
        detail: dict[str, object] = {"sink": sink, "error": why}
        alert = Alert(DEFAULT_SCOPE, AlertCode.EVENT_BUS_SINK_GONE, sink, message, detail)
        yield from raise_alert(alert, ids, now)


def enable(sink: str, now: datetime) -> Transaction[None]:
    enabled = yield from ask("enable_bus_sink", sink=sink)
    if not enabled:
        raise no_sink(sink)
    yield from _resolve(AlertCode.EVENT_BUS_SINK_GONE, sink, DEFAULT_SCOPE, now)


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
            raise Conflict(f"the dead letter {letter_id} was already redriven")
        raise Conflict(
            f"the sink '{sink}' of the dead letter {letter_id} is not registered",
            hint="start a process whose settings contain it, then redrive again",
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
    for sink in sorted({row[1] for row in marked}):
        left = yield from ask("bus_letters_left", sink=sink, workspace_id=scope.workspace_id)
        if not left[0][0]:
            yield from _resolve(AlertCode.EVENT_BUS_DEAD_LETTER, sink, scope, now)
    return len(marked)


def forget_sink(sink: str) -> Transaction[bool]:
    rows = yield from ask("forget_bus_sink", sink=sink)
    return bool(rows)


def forget_waiting(sink: str, most: int) -> Transaction[int]:
    rows = yield from ask("forget_bus_rows", sink=sink, most=most)
    return len(rows)


def forget_letters(sink: str, most: int) -> Transaction[int]:
    rows = yield from ask("forget_bus_letters", sink=sink, most=most)
    return len(rows)


def _resolve(code: AlertCode, sink: str, scope: Scope, now: datetime) -> Transaction[None]:
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
    """What went with a sink: events that waited for it, and dead letters of it."""

    waiting: int
    dead_letters: int


def resume(sink: str, actor: str, ids: IdSource, now: datetime) -> Transaction[None]:
    yield from enable(sink, now)
    yield from _recorded(DEFAULT_SCOPE, "bus.sink_resumed", actor, ids, now, sink=sink)


def redrive_one_recorded(
    scope: Scope, letter_id: str, actor: str, ids: IdSource, now: datetime
) -> Transaction[str]:
    """The sink that will be told again."""
    sink = yield from redrive_one(scope, letter_id, now)
    yield from _recorded(scope, "bus.redriven", actor, ids, now, sink=sink, letters=1)
    return sink


def redrive_recorded(
    scope: Scope, letters: Sequence[LetterRecord], actor: str, ids: IdSource, now: datetime
) -> Transaction[int]:
    count = yield from redrive(scope, [letter.id for letter in letters], now)
    if count:
        yield from _recorded(scope, "bus.redriven", actor, ids, now, letters=count)
    return count


def record_forgotten(
    sink: str, forgotten: Forgotten, actor: str, ids: IdSource, now: datetime
) -> Transaction[None]:
    for code in (AlertCode.EVENT_BUS_DEAD_LETTER, AlertCode.EVENT_BUS_SINK_GONE):
        yield from resolve_alert(code, sink, now)
    told = forgotten._asdict()
    yield from _recorded(DEFAULT_SCOPE, "bus.sink_forgotten", actor, ids, now, sink=sink, **told)


def _recorded(
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
        for _, of_run in groupby(waiting, key=lambda each: each.event.run_id)
        for each in takewhile(lambda each: each.due_at <= now, of_run)
    ]
    return ready, after
