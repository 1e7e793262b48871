"""The log of a run: the one function that appends to it, and reading it in order.

Appending locks the run's row until the commit, so commit order is `run_seq` order. An event whose
key is already in the log is not written again, so repeating an append is harmless.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.errors import NotFound
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
    window = _window(run_id, plan_version, drafts, now)
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
    window = _window(run_id, plan_version, drafts, now)
    yield from ask_alone(
        "append_run_events",
        window,
        run_id=run_id,
        plan_version=plan_version,
        contract_version=CONTRACT_VERSION,
    )


def _window(
    run_id: RunId, plan_version: str, drafts: Sequence[EventDraft], now: datetime
) -> Window:
    """Each key once, at its first occurrence: SQLite's guard against REPLACE would refuse the
    second row before ON CONFLICT could omit it, and an omitted row would waste a number."""
    by_key: dict[str, EventDraft] = {}
    for draft in drafts:
        key = event_key(run_id, draft.step_id, draft.logical_attempt, draft.type, plan_version)
        by_key.setdefault(key, draft)
    drafts = list(by_key.values())
    return {
        "place": range(len(drafts)),
        "key": list(by_key),
        "type": [draft.type.value for draft in drafts],
        "emitter": [EMITTERS[draft.type].value for draft in drafts],
        "step_id": [draft.step_id for draft in drafts],
        "logical_attempt": [draft.logical_attempt for draft in drafts],
        "engine_attempt": [draft.engine_attempt for draft in drafts],
        "signal_id": [draft.signal_id for draft in drafts],
        "payload": [msgspec.json.encode(draft.payload).decode() for draft in drafts],
        "occurred_at": [draft.occurred_at or now for draft in drafts],
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
