"""Migration 0002 on a database that is at work: nothing is lost, and its run goes on to its end.

The old database is made from migration 0001's own file and filled with the rows of a real run that
was cut off: sent, open, queued and locked, and a single message in its lane.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outrider.bootstrap import Outrider, make_store
from outrider.domain.ids import DEFAULT_SCOPE, CampaignId, RunId
from outrider.domain.phases import Action
from outrider.domain.states import PhaseState
from outrider.gateways.sandbox import Sandbox, references_delivered
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions.phase_repairs import count_bypasses
from outrider.testing.launches import observe, target
from tests.support.controls import (
    begun,
    control,
    created,
    until,
    until_ended,
    until_run,
    until_state,
)
from tests.support.old_databases import (
    OLD_TABLES,
    columns,
    copy_rows,
    database_is_sqlite,
    migrate_to,
    other_database,
    rows,
    schema,
)
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working

pytestmark = pytest.mark.empty_database

__all__ = ["other_database"]

ITEMS = 60
INTENT = "intent-1"


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "provider.ndjson"


@pytest.fixture
async def sandbox(log_path: Path) -> AsyncIterator[Sandbox]:
    async with Sandbox(log_path=log_path) as sandbox:
        yield sandbox


async def cut_off(outrider: Outrider, sandbox: Sandbox) -> tuple[CampaignId, RunId]:
    """A launch whose worker vanished in the middle of its calls, and an intent that waits."""
    sandbox.change_faults({"latencyMs": 150})
    campaign_id = await created(outrider, ITEMS)
    run_id = await begun(outrider, campaign_id)
    async with outrider.worker() as worker:
        running = asyncio.create_task(worker.run())
        await until_run(outrider, run_id, lambda _, counted: counted.sent >= 20)
        await until(lambda: sandbox.requests >= 50)
        running.cancel()
        await asyncio.wait({running})
    await outrider.submissions.submit_all(
        DEFAULT_SCOPE,
        [Submission(INTENT, "sms.all", {"to": "+447700900123", "message": "Hello"})],
    )
    return campaign_id, run_id


async def test_a_run_in_flight_outlives_the_migration_and_completes(
    database: str,
    other_database: str,
    tmp_path: Path,
    sandbox: Sandbox,
    log_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = target("sms.all", "sms", sandbox.http_url, maxAttempts=50)
    async with opened(other_database, tmp_path, gateway) as before:
        campaign_id, run_id = await cut_off(before, sandbox)
    await migrate_to(database, 1, monkeypatch)
    await copy_rows(other_database, database)
    async with raw_sql(database) as raw:
        # Whoever held these is gone for longer than any lease.
        await raw.run(
            "UPDATE job_queue SET lease_expires_at = created_at, locked_by = 'gone@elsewhere:1'"
            " WHERE status = 'locked'"
        )
        held = await raw.value("SELECT count(*) FROM job_queue WHERE status = 'locked'")
        sent = await raw.value("SELECT count(*) FROM channel_outbox WHERE status = 'sent'")
        still_open = await raw.value(
            "SELECT count(*) FROM channel_outbox"
            " WHERE attempt_opened_at IS NOT NULL AND attempt_closed_at IS NULL"
        )
    assert held
    assert still_open
    assert 20 <= sent < ITEMS
    named = {table: await columns(database, table) for table in OLD_TABLES}
    kept = {table: await rows(database, table, named[table]) for table in OLD_TABLES}
    assert len(kept["channel_outbox"]) > sent

    store = make_store(database)
    assert (await store.migrate())[0] == "0002_control_plane"
    await store.verify_schema()
    await store.close()
    for table in OLD_TABLES:
        assert await rows(database, table, named[table]) == kept[table], table
    async with raw_sql(database) as raw:
        events = await raw.value("SELECT max(sequence) FROM campaign_events")
        told = await raw.value("SELECT last_sequence FROM campaign_phases WHERE phase = 'launch'")
        assert told == events
        if database_is_sqlite(database):
            assert await raw.run("PRAGMA foreign_key_check") == []
            assert await raw.run("PRAGMA integrity_check") == [("ok",)]

    sandbox.change_faults({"latencyMs": 0})
    async with opened(database, tmp_path, gateway) as after:
        await control(after, campaign_id, Action.PAUSE)
        resumed = await control(after, campaign_id, Action.RESUME)
        assert resumed.run_id == run_id
        async with working(after):
            accounting = await until_ended(after, run_id)
            await until_state(after, campaign_id, PhaseState.COMPLETED)
            async with asyncio.timeout(60):
                while True:
                    intent, _ = await after.submissions.intent(DEFAULT_SCOPE, INTENT)
                    if intent.status == "ACCEPTED":
                        break
                    await asyncio.sleep(0.02)
        assert accounting.sent == ITEMS
        assert await after.store.read(count_bypasses()) == 0
        run, _ = await observe(after, run_id)
        assert (await after.certifier.certify(DEFAULT_SCOPE, run.id)).holds
    delivered = references_delivered(log_path)
    assert len(delivered) == ITEMS + 1
    assert set(delivered.values()) == {1}


async def test_a_migrated_schema_equals_a_fresh_one(
    database: str,
    other_database: str,
    tmp_path: Path,
    sandbox: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway = target("sms.all", "sms", sandbox.http_url)
    async with opened(other_database, tmp_path, gateway) as fresh:
        await created(fresh, 10)
    await migrate_to(database, 1, monkeypatch)
    await copy_rows(other_database, database)
    store = make_store(database)
    await store.migrate()
    await store.close()
    fresh_schema = await schema(other_database)
    assert await schema(database) == fresh_schema
    names = {str(part) for row in fresh_schema for part in row}
    assert {
        "job_queue_due", "job_queue_by_run", "job_queue_lanes", "job_queue_locked",
        "job_queue_failed", "job_queue_unfinished", "campaign_phases_in_flight",
        "artifacts_by_campaign", "campaign_phases_watched",
    } <= names  # fmt: skip


async def test_a_migration_that_fails_midway_changes_nothing(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate_to(database, 1, monkeypatch)
    before = await schema(database)
    async with raw_sql(database) as raw:
        await raw.run("CREATE TABLE artifacts (id text)")
        store = make_store(database)
        with pytest.raises(Exception, match="artifacts"):
            await store.migrate()
        await store.close()
        assert await raw.run("SELECT name FROM schema_migrations") == [("0001_spine",)]
        await raw.run("DROP TABLE artifacts")
    assert await schema(database) == before
    again = make_store(database)
    assert (await again.migrate())[0] == "0002_control_plane"
    await again.close()
