"""SQLite's REPLACE rewrites nothing that is final (R3), whoever is connected to the file."""

from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.kernel.submissions.submission_manager import Submission
from outrider.testing.launches import launch, message, people, target
from tests.support.raw_sql import Refused, raw_sql
from tests.support.whole_runs import opened, work_until_terminal

NOOP = target("sms.all", "noop", "noop:")
TABLES = {
    "channel_outbox": "error",
    "run_events": "payload",
    "run_snapshots": "document",
    "campaign_audit_log": "detail",
    "campaign_events": "payload",
    "assets": "body",
    "contract_snapshots": "document",
}
"""Each with a column that a forger would like to change."""


def copied(connection: apsw.Connection, table: str, **changes: str) -> str:
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    taken = ", ".join(changes.get(name, name) for name in names)
    return f"REPLACE INTO {table} ({', '.join(names)}) SELECT {taken} FROM {table}"


def contents(connection: apsw.Connection, table: str) -> list[tuple[object, ...]]:
    return sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)


async def test_replace_cannot_rewrite_what_is_final(tmp_path: Path) -> None:
    """R3: a stranger's connection, with SQLite's own settings."""
    database = f"sqlite:///{tmp_path}/outrider.db"
    async with opened(database, tmp_path, NOOP) as outrider:
        run_id = await launch(outrider, [message(Channel.SMS, "sms.all")], people(5))
        await work_until_terminal(outrider, run_id)
        await outrider.projector.project_once()
    stranger = apsw.Connection(str(tmp_path / "outrider.db"))
    for table, column in TABLES.items():
        before = contents(stranger, table)
        assert before, f"{table} has nothing to forge"
        attempts = [copied(stranger, table, **{column: "'forged'"})]
        if table == "channel_outbox":
            # Under an id of its own, in the place of the old key.
            attempts.append(copied(stranger, table, id="'other-' || id", error="'forged'"))
        for sql in attempts:
            with suppress(apsw.ConstraintError):
                stranger.execute(sql)
            assert contents(stranger, table) == before, sql
    stranger.close()


async def test_a_ledger_row_keeps_its_key(database: str, tmp_path: Path) -> None:
    """R3: UPDATE OR REPLACE would take the other row away."""
    async with opened(database, tmp_path, NOOP) as outrider:
        later = Submission("later", "sms.all", {"to": "+447700900123", "message": "Hi"})
        await outrider.submissions.submit(DEFAULT_SCOPE, later)
    async with raw_sql(database) as raw:
        with pytest.raises(Refused):
            await raw.run("UPDATE channel_outbox SET idempotency_key = idempotency_key")
