"""Emitting inside the caller's own transaction: business data and message commit together.

An event is written through the caller's connection to Outrider's database, and is routed once the
caller has committed. If it is rolled back, it was never emitted. A trigger cannot be validated
here; an unknown one is recorded as failed, with the reason, when the event is routed.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from outrider import stores
from outrider.domain.emissions import Emission, event_texts
from outrider.domain.errors import Conflict, IdempotencyConflict
from outrider.domain.ids import DEFAULT_SCOPE, Scope
from outrider.domain.retention import event_memory_key
from outrider.stores.compiler import Dialect
from outrider.stores.statements import load_statements, to_positional
from outrider.system import SystemIds

__all__ = ["Emission", "emit_in_postgres", "emit_in_sqlite"]

_STATEMENTS = Path(stores.__file__).parent / "in_transaction"
_SQLITE = load_statements(_STATEMENTS, Dialect.SQLITE)
_POSTGRES = {
    name: to_positional(named.sql)
    for name, named in load_statements(_STATEMENTS, Dialect.POSTGRES).items()
}


class PostgresConnection(Protocol):
    """Satisfied by asyncpg's connections and those of its pools."""

    def is_in_transaction(self) -> bool: ...

    async def fetch(self, query: str, *args: Any) -> Any: ...


class SqliteConnection(Protocol):
    """Satisfied by those of apsw and of Python's own sqlite3."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, sql: str, parameters: Any, /) -> Any: ...


class _Row(NamedTuple):
    """A domain event as written, under the names of the statements' parameters."""

    id: str
    tenant_id: str
    workspace_id: str
    event_id: str
    trigger_name: str
    occurred_at: datetime
    subject: str
    variables: str
    fingerprint: str
    trace_parent: str | None
    now: datetime
    memory_key: str


async def emit_in_postgres(
    connection: PostgresConnection,
    emission: Emission,
    scope: Scope = DEFAULT_SCOPE,
    *,
    trace_parent: str | None = None,
) -> bool:
    """Whether it is new. Raises InvalidInput or IdempotencyConflict before anything is written."""
    row = _row(emission, scope, trace_parent)._asdict()
    if not connection.is_in_transaction():
        raise _no_transaction("async with connection.transaction(): …")

    async def found(name: str) -> bool:
        sql, parameters = _POSTGRES[name]
        return bool(await connection.fetch(sql, *(row[each] for each in parameters)))

    if await found("emit_event"):
        return True
    if not await found("same_event"):
        raise _conflict(emission.event_id)
    return False


def emit_in_sqlite(
    connection: SqliteConnection,
    emission: Emission,
    scope: Scope = DEFAULT_SCOPE,
    *,
    trace_parent: str | None = None,
) -> bool:
    """Whether it is new. Raises InvalidInput or IdempotencyConflict before anything is written."""
    row = _row(emission, scope, trace_parent)
    if not connection.in_transaction and not _begins_by_itself(connection):
        raise _no_transaction("connection.execute('BEGIN IMMEDIATE')")
    values = {
        **row._asdict(),
        "occurred_at": _text(row.occurred_at),
        "now": _text(row.now),
        "fingerprint": bytes.fromhex(row.fingerprint),
        "memory_key": bytes.fromhex(row.memory_key),
    }
    if _found(connection, "emit_event", values):
        return True
    if not _found(connection, "same_event", values):
        raise _conflict(emission.event_id)
    return False


def _row(emission: Emission, scope: Scope, trace_parent: str | None) -> _Row:
    texts = event_texts(emission)
    now = datetime.now(UTC)
    occurred = emission.occurred_at or now
    return _Row(
        SystemIds().new(), *scope, emission.event_id, emission.trigger, occurred.astimezone(UTC),
        *texts, trace_parent, now, event_memory_key(emission.event_id),
    )  # fmt: skip


def _found(connection: SqliteConnection, name: str, values: Mapping[str, object]) -> bool:
    # Only those that the statement names: Python's own sqlite3 rejects the others from 3.14 on.
    sql = _SQLITE[name].sql
    _, parameters = to_positional(sql)
    rows = connection.execute(sql, {each: values[each] for each in parameters})
    return bool(rows.fetchall())


def _begins_by_itself(connection: SqliteConnection) -> bool:
    """Python's own sqlite3 does, before the first write, unless configured otherwise."""
    commits_each = getattr(connection, "autocommit", False) is True
    return getattr(connection, "isolation_level", None) is not None and not commits_each


def _text(moment: datetime) -> str:
    """As the SQLite store writes times: text order is time order."""
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _no_transaction(how: str) -> Conflict:
    return Conflict(
        "there is no open transaction to commit the event with",
        hint=f"begin one first: {how}",
    )


def _conflict(event_id: str) -> IdempotencyConflict:
    return IdempotencyConflict(
        f"the event '{event_id}' was already emitted with a different trigger or content",
        hint="use a new event id for a new event",
    )
