"""Migration 0008 on a database in use: what waited goes on waiting, and ends by its deadline."""

from pathlib import Path

import pytest

from outrider.bootstrap import make_store
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Sandbox
from outrider.testing.clock import ShiftedClock
from outrider.testing.launches import launch, message, people, target, until_terminal
from tests.support.intents import ended, submit, until
from tests.support.old_databases import (
    OLD_TABLES,
    columns,
    copy_rows,
    migrate_to,
    other_database,
    rows,
)
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working

pytestmark = pytest.mark.empty_database

__all__ = ["other_database"]

TABLES = (*OLD_TABLES, "run_events", "run_snapshots", "run_requests")
HOUR_SECONDS = 3_600


async def before(database: str, other_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database is as version 7 would have left it, with a target in trouble."""
    await migrate_to(database, 7, monkeypatch)
    await copy_rows(other_database, database, TABLES)
    async with raw_sql(database) as raw:
        await raw.run(
            "INSERT INTO target_states"
            " (submission_target, tokens, refilled_at, failures, breaker, probe_at, updated_at)"
            " SELECT 'sms', 1, created_at, 20, 'open', created_at, created_at FROM tenants LIMIT 1"
        )


async def test_jobs_and_messages_that_waited_are_sent(
    database: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox() as sandbox:
        gateway = target("sms", "sms", sandbox.http_url)
        async with opened(other_database, tmp_path, gateway) as earlier:
            run_id = await launch(earlier, [message(Channel.SMS, "sms")], people(20), batch_size=5)
            await submit(earlier, "intent")
        await before(database, other_database, monkeypatch)
        named = {table: await columns(database, table) for table in TABLES}
        kept = {table: await rows(database, table, named[table]) for table in TABLES}
        store = make_store(database)
        assert (await store.migrate())[0] == "0008_doors"
        await store.close()
        for table in TABLES:
            assert await rows(database, table, named[table]) == kept[table], table
        async with opened(database, tmp_path, gateway) as after, working(after):
            accounting = await until_terminal(after, run_id)
            intent, _ = await until(after, "intent", ended)
        assert accounting.sent == 20
        assert intent.status == "ACCEPTED"
        assert sandbox.deliveries.total() == 21


async def test_a_waiting_item_ends_by_its_deadline_and_is_not_called_too_late(
    database: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox() as sandbox:
        strict = {"policy": "deadline", "maxAcceptanceSeconds": 30}
        gateway = target("sms", "sms", sandbox.http_url, **strict)  # type: ignore[arg-type]
        async with opened(other_database, tmp_path, gateway) as earlier:
            await submit(earlier, "late")
        await before(database, other_database, monkeypatch)
        clock = ShiftedClock(tmp_path / "shift")
        clock.shift(tmp_path / "shift", HOUR_SECONDS)
        async with opened(database, tmp_path, gateway, clock=clock) as after, working(after):
            intent, attempts = await until(after, "late", ended)
        assert (intent.status, intent.exhausted_reason) == ("EXHAUSTED", "deadline_exceeded")
        assert (intent.attempts, attempts) == (0, [])
        assert sandbox.requests == 0
