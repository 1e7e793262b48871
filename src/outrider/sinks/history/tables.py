"""What a history writes and reads, as rows: the same columns in every database."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent
from outrider.ports.history import HistoryEvent, HistorySnapshot, RunContext
from outrider.stores.statements import load_statements

HERE = Path(__file__).parent
CLAUSE = re.compile(r"\{(\w+): ([^{}]+)\}")
STATEMENTS = {name: each.sql for name, each in load_statements(HERE / "statements").items()}

CONTEXT_COLUMNS = RunContext._fields
EVENT_COLUMNS = (
    "run_id", "run_seq", "type", "occurred_at", "step_id", "logical_attempt", "engine_attempt",
    "payload", "emitter", "plan_version", "idempotency_key", "contract_version", *CONTEXT_COLUMNS,
)  # fmt: skip
SNAPSHOT_COLUMNS = (
    "run_id", "run_seq", "status", "occurred_at", "started_at", "completed_at", "steps",
    "failed_steps", "document", *CONTEXT_COLUMNS,
)  # fmt: skip

Cells = tuple[Any, ...]
TableForm = Literal["plain", "standard", "hybrid"]


class Staged(NamedTuple):
    """Rows for a staging table, and what moves them on from there."""

    table: str
    columns: Sequence[str]
    rows: Sequence[Cells]

    @property
    def merge(self) -> str:
        return STATEMENTS[f"merge_{self.table.removeprefix('staged_')}"]

    @property
    def clear(self) -> str:
        return STATEMENTS[f"clear_{self.table}"]


def staged(events: Sequence[HistoryEvent], snapshots: Sequence[HistorySnapshot]) -> list[Staged]:
    """Each key once: a MERGE would insert a row that is staged twice, twice."""
    of_events = {(each.event.run_id, each.event.run_seq): _event_cells(each) for each in events}
    of_snapshots = {(each.run_id, each.run_seq): _snapshot_cells(each) for each in snapshots}
    both = [
        Staged("staged_run_events", EVENT_COLUMNS, list(of_events.values())),
        Staged("staged_run_snapshots", SNAPSHOT_COLUMNS, list(of_snapshots.values())),
    ]
    return [each for each in both if each.rows]


def tables_as(form: TableForm) -> list[str]:
    """The statements that make the tables, one by one."""
    text = (HERE / "tables.sql").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
    chosen = CLAUSE.sub(lambda found: f" {found[2]}" if found[1] == form else "", lines)
    return [each for piece in chosen.split(";") if (each := piece.strip())]


def event_of(row: Sequence[Any]) -> RunEvent:
    return RunEvent(
        run_id=RunId(row[0]),
        run_seq=int(row[1]),
        type=row[2],
        occurred_at=_utc(row[3]),
        step_id=row[4],
        logical_attempt=int(row[5]),
        engine_attempt=None if row[6] is None else int(row[6]),
        payload=msgspec.json.decode(row[7]),
        emitter=row[8],
        plan_version=row[9],
        idempotency_key=row[10],
        contract_version=row[11],
    )


def _event_cells(each: HistoryEvent) -> Cells:
    event = each.event
    return (
        event.run_id, event.run_seq, event.type, _utc(event.occurred_at), event.step_id,
        event.logical_attempt, event.engine_attempt, msgspec.json.encode(event.payload).decode(),
        event.emitter, event.plan_version, event.idempotency_key, event.contract_version,
        *each.context,
    )  # fmt: skip


def _snapshot_cells(each: HistorySnapshot) -> Cells:
    return (
        each.run_id, each.run_seq, each.status, _utc(each.occurred_at),
        each.started_at and _utc(each.started_at), each.completed_at and _utc(each.completed_at),
        each.steps, each.failed_steps, each.document, *each.context,
    )  # fmt: skip


def _utc(time: datetime) -> datetime:
    return time.astimezone(UTC)
