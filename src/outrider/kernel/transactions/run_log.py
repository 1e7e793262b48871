"""The log of a run: the one function that appends to it, and reading it in order.

Appending locks the run's row until the commit, so commit order is `run_seq` order. An event whose
key is already in the log is not written again, so repeating an append is harmless.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.errors import NotFound
from outrider.domain.event_chain import LoggedEvent, content_hash
from outrider.domain.ids import RunId, Scope
from outrider.domain.run_events import (
    EMITTERS,
    RunEvent,
    RunEventType,
    event_key,
)
from outrider.kernel.transactions import run_records
from outrider.ports.event_log import Appended as Appended
from outrider.ports.event_log import EventDraft as EventDraft
from outrider.ports.store import Row, Transaction, Window, ask, ask_alone

LAST_SEQ = 2**62
"""Greater than every sequence."""


def append(
    run_id: RunId,
    plan_version: str,
    drafts: Sequence[EventDraft],
    now: datetime,
    contract_version: str = CONTRACT_VERSION,
) -> Transaction[list[Appended]]:
    """Append the new ones of these, in order; returns what was appended, with its sequence."""
    window = _window(run_id, plan_version, drafts, now, contract_version)
    rows = yield from ask(
        "append_run_events",
        window,
        run_id=run_id,
        plan_version=plan_version,
        contract_version=contract_version,
    )
    if not rows and not (yield from ask("run_exists", run_id=run_id)):
        raise NotFound(f"there is no run {run_id}")
    return sorted(Appended(*row) for row in rows)


def append_alone(
    run_id: RunId, plan_version: str, drafts: Sequence[EventDraft], now: datetime
) -> Transaction[None]:
    """The same as a single statement, for a run that is known to exist."""
    window = _window(run_id, plan_version, drafts, now, CONTRACT_VERSION)
    yield from ask_alone(
        "append_run_events",
        window,
        run_id=run_id,
        plan_version=plan_version,
        contract_version=CONTRACT_VERSION,
    )


def _window(
    run_id: RunId,
    plan_version: str,
    drafts: Sequence[EventDraft],
    now: datetime,
    contract_version: str,
) -> Window:
    """Each key once, at its first occurrence: the second would be refused with all the others."""
    by_key: dict[str, EventDraft] = {}
    for draft in drafts:
        key = event_key(run_id, draft.step_id, draft.logical_attempt, draft.type, plan_version)
        by_key.setdefault(key, draft)
    events = [
        LoggedEvent(
            run_id,
            draft.type.value,
            draft.occurred_at or now,
            draft.step_id,
            draft.logical_attempt,
            draft.engine_attempt,
            EMITTERS[draft.type].value,
            plan_version,
            key,
            contract_version,
            draft.signal_id,
            msgspec.json.encode(draft.payload).decode(),
        )
        for key, draft in by_key.items()
    ]
    return {
        "place": range(len(events)),
        "key": [event.key for event in events],
        "type": [event.type for event in events],
        "emitter": [event.emitter for event in events],
        "step_id": [event.step_id for event in events],
        "logical_attempt": [event.logical_attempt for event in events],
        "engine_attempt": [event.engine_attempt for event in events],
        "signal_id": [event.signal_id for event in events],
        "payload": [event.payload for event in events],
        "occurred_at": [event.occurred_at for event in events],
        "content": [content_hash(event.canonical()).hex() for event in events],
    }


def events_after(
    run_id: RunId, after: int, most: int, *, until: int = LAST_SEQ
) -> Transaction[list[RunEvent]]:
    rows = yield from ask("run_events_after", run_id=run_id, after=after, until=until, most=most)
    return [event_of(row) for row in rows]


def event_of(row: Row) -> RunEvent:
    return RunEvent(
        run_id=RunId(row[0]),
        run_seq=row[1],
        type=row[2],
        occurred_at=row[3],
        step_id=row[4],
        logical_attempt=row[5],
        engine_attempt=row[6],
        payload=_payload(row[7]),
        emitter=row[8],
        plan_version=row[9],
        idempotency_key=row[10].lower(),
        contract_version=row[11],
    )


def _payload(text: str) -> dict[str, object]:
    """A later version might write something other than an object; reading must not fail for
    that."""
    found = msgspec.json.decode(text)
    return found if isinstance(found, dict) else {"value": found}


def sequence_of(appended: Iterable[Appended], *types: RunEventType) -> int:
    """The sequence of the latest appended event of these types."""
    return max(each.run_seq for each in appended if each.type in types)


def events_of(scope: Scope, run_id: RunId, after: int, most: int) -> Transaction[list[RunEvent]]:
    """Of a run of this workspace."""
    found = yield from run_records.run(scope, run_id)
    return (yield from events_after(found.id, after, most))


def append_of_runs(
    by_run: Mapping[tuple[RunId, str], Sequence[EventDraft]], now: datetime
) -> Transaction[None]:
    """By run and version of its plan. In the order of the runs' ids, so that two workers never
    deadlock."""
    if len(by_run) == 1:
        ((run_id, version), drafts), *_ = by_run.items()
        yield from append_alone(run_id, version, drafts, now)
        return
    for run_id, version in sorted(by_run):
        yield from append(run_id, version, by_run[run_id, version], now)
