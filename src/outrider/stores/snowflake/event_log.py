"""The event log in Snowflake: one transaction per append, writers serialised by a counter.

Snowflake enforces no unique key, so an append first UPDATEs the counter of its run; the next writer
blocks there until the first has committed, and only then checks which keys are known. The connector
blocks, so it runs in threads, each with its own connection.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from outrider.domain.batches import in_parts
from outrider.domain.contract_versions import CONTRACT_VERSION
from outrider.domain.ids import RunId
from outrider.domain.run_events import EMITTERS, RunEvent, event_key
from outrider.limits.stores import (
    SNOWFLAKE_CONNECTIONS,
    SNOWFLAKE_WINDOW_BYTES,
    SNOWFLAKE_WINDOW_EVENTS,
)
from outrider.ports.event_log import Appended, EventDraft
from outrider.stores.migrations import load_migrations
from outrider.stores.snowflake.connection import Connection, Cursor, driver_errors, translated
from outrider.stores.statements import load_statements, to_named

HERE = Path(__file__).parent
MIGRATIONS = load_migrations(HERE / "migrations")
STATEMENTS = {
    name: to_named(named.sql) for name, named in load_statements(HERE / "statements").items()
}

Answer = TypeVar("Answer")
Cells = tuple[object, ...]


class SnowflakeEventLog:
    """`connect` makes a connection whose database and schema are already selected."""

    def __init__(
        self, connect: Callable[[], Connection], *, connections: int = SNOWFLAKE_CONNECTIONS
    ) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="snowflake")
        self._own = threading.local()
        self._open: set[Connection] = set()

    async def migrate(self) -> None:
        """Create missing tables. Snowflake commits each of these separately."""

        def make(cursor: Cursor) -> None:
            for migration in MIGRATIONS:
                for statement in migration.sql.split(";\n"):
                    if any(line and line[:2] != "--" for line in statement.splitlines()):
                        cursor.execute(statement)

        await self._in_thread(make)

    async def append(
        self, run_id: RunId, plan_version: str, drafts: Sequence[EventDraft], now: datetime
    ) -> Sequence[Appended]:
        # Of duplicates the first counts; a MERGE would insert both.
        drafts_by_key: dict[str, EventDraft] = {}
        for draft in drafts:
            key = event_key(run_id, draft.step_id, draft.logical_attempt, draft.type, plan_version)
            drafts_by_key.setdefault(key, draft)
        if not drafts_by_key:
            return []
        return await self._in_thread(
            lambda cursor: _in_transaction(
                cursor, lambda: _append(cursor, run_id, plan_version, drafts_by_key, now)
            )
        )

    async def events_after(self, run_id: RunId, after: int, most: int) -> Sequence[RunEvent]:
        rows = await self._in_thread(
            lambda cursor: _ask(cursor, "run_events_after", run_id=run_id, after=after, most=most)
        )
        return [_event(row) for row in rows]

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        for connection in self._open:
            connection.close()
        self._open.clear()

    async def _in_thread(self, work: Callable[[Cursor], Answer]) -> Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def _run(self, work: Callable[[Cursor], Answer]) -> Answer:
        try:
            connection = self._connection()
            cursor = connection.cursor()
            try:
                return work(cursor)
            finally:
                cursor.close()
        except driver_errors() as error:
            self._drop_connection()
            raise translated(error) from error

    def _connection(self) -> Connection:
        found: Connection | None = getattr(self._own, "connection", None)
        if found is None:
            found = self._own.connection = self._connect()
            self._open.add(found)
        return found

    def _drop_connection(self) -> None:
        """Whatever its state, the next one is new."""
        found: Connection | None = getattr(self._own, "connection", None)
        if found is not None:
            self._own.connection = None
            self._open.discard(found)
            with suppress(Exception):
                found.close()


def _in_transaction(cursor: Cursor, work: Callable[[], Answer]) -> Answer:
    cursor.execute("BEGIN")
    try:
        answer = work()
        cursor.execute("COMMIT")
    except BaseException:
        # If the connection is lost, Snowflake rolls back.
        with suppress(Exception):
            cursor.execute("ROLLBACK")
        raise
    return answer


def _append(
    cursor: Cursor,
    run_id: RunId,
    plan_version: str,
    drafts_by_key: Mapping[str, EventDraft],
    now: datetime,
) -> list[Appended]:
    counter: dict[str, Any] = {"run_id": run_id, "count": len(drafts_by_key)}
    _ask(cursor, "take_run_seqs", **counter)
    if not cursor.rowcount:
        _ask(cursor, "hold_the_door")
        _ask(cursor, "insert_run_counter", run_id=run_id)
        _ask(cursor, "take_run_seqs", **counter)
    ((last_seq,),) = _ask(cursor, "last_run_seq", run_id=run_id)
    before = int(last_seq) - len(drafts_by_key)
    rows = [
        (before + place, key, *_cells(draft, now))
        for place, (key, draft) in enumerate(drafts_by_key.items(), start=1)
    ]
    for window in _windows(rows):
        _ask(
            cursor,
            "merge_run_events",
            window,
            run_id=run_id,
            plan_version=plan_version,
            contract_version=CONTRACT_VERSION,
        )
    found = _ask(cursor, "appended_run_events", run_id=run_id, after=before)
    return [Appended(int(run_seq), type_, step_id) for run_seq, type_, step_id in found]


def _cells(draft: EventDraft, now: datetime) -> Cells:
    return (
        draft.type.value,
        EMITTERS[draft.type].value,
        draft.step_id,
        draft.logical_attempt,
        draft.engine_attempt,
        draft.signal_id,
        msgspec.json.encode(draft.payload).decode(),
        (draft.occurred_at or now).astimezone(UTC).isoformat(timespec="microseconds"),
    )


def _windows(rows: Sequence[Cells]) -> Iterator[list[Cells]]:
    """Snowflake limits a statement's text, which includes its values."""

    def weight(row: Cells) -> int:
        return sum(len(str(cell).encode()) for cell in row)

    return in_parts(rows, weight, SNOWFLAKE_WINDOW_BYTES, SNOWFLAKE_WINDOW_EVENTS)


def _ask(
    cursor: Cursor, name: str, window: Sequence[Cells] = (), /, **params: Any
) -> Sequence[Any]:
    sql = STATEMENTS[name]
    if window:
        cells = {
            f"cell_{row}_{column}": cell
            for row, each in enumerate(window)
            for column, cell in enumerate(each)
        }
        values = (
            "(" + ", ".join(f"%(cell_{row}_{column})s" for column in range(len(each))) + ")"
            for row, each in enumerate(window)
        )
        sql = sql.replace("%(window)s", ", ".join(values))
        params |= cells
    cursor.execute(sql, params)
    return cursor.fetchall()


def _event(row: Sequence[Any]) -> RunEvent:
    return RunEvent(
        run_id=RunId(row[0]),
        run_seq=int(row[1]),
        type=row[2],
        occurred_at=row[3].astimezone(UTC),
        step_id=row[4],
        logical_attempt=int(row[5]),
        engine_attempt=None if row[6] is None else int(row[6]),
        payload=msgspec.json.decode(row[7], type=dict[str, object]),
        emitter=row[8],
        plan_version=row[9],
        idempotency_key=row[10],
        contract_version=row[11],
    )
