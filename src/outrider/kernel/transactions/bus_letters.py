"""Dead letters of the event bus: listing those of a workspace, and redriving them."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from outrider.domain.bus_queues import CALLBACKS, sink_of
from outrider.domain.errors import Conflict, NotFound
from outrider.domain.ids import Scope, is_uuid
from outrider.kernel.transactions import callbacks
from outrider.kernel.transactions.alerts import AlertCode
from outrider.kernel.transactions.bus import recorded, resolve
from outrider.ports.clock import IdSource
from outrider.ports.store import Transaction, ask


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


def letters_page(
    scope: Scope, after: str, most: int, *, only_waiting: bool
) -> Transaction[list[LetterRecord]]:
    rows = yield from ask(
        "bus_letters_page", **scope._asdict(), after=after, only_waiting=only_waiting, most=most
    )
    return [LetterRecord(*row) for row in rows]


def redrive_one(scope: Scope, letter_id: str, now: datetime) -> Transaction[str]:
    """Returns the queue that it is published to again."""
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
            f"the sink '{sink_of(sink)}' of the dead letter {letter_id} is not registered",
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
    addresses = {row[2] for row in marked if row[1] == CALLBACKS}
    if addresses:
        # Redriving it means that the receiver is available again.
        yield from callbacks.enable(addresses)
    for sink in sorted({row[1] for row in marked}):
        left = yield from ask("bus_letters_left", sink=sink, workspace_id=scope.workspace_id)
        if not left[0][0]:
            yield from resolve(AlertCode.EVENT_BUS_DEAD_LETTER, sink, scope, now)
    return len(marked)


def redrive_one_recorded(
    scope: Scope, letter_id: str, actor: str, ids: IdSource, now: datetime
) -> Transaction[str]:
    """The sink that receives it again."""
    sink = sink_of((yield from redrive_one(scope, letter_id, now)))
    yield from recorded(scope, "bus.redriven", actor, ids, now, sink=sink, letters=1)
    return sink


def redrive_recorded(
    scope: Scope, letters: Sequence[LetterRecord], actor: str, ids: IdSource, now: datetime
) -> Transaction[int]:
    count = yield from redrive(scope, [letter.id for letter in letters], now)
    if count:
        yield from recorded(scope, "bus.redriven", actor, ids, now, letters=count)
    return count
