"""Migration 0004 on a database in use: what was there stays, and the third door opens beside it."""

from pathlib import Path

import pytest

from outrider.bootstrap import make_store
from outrider.domain.states import Channel
from outrider.gateways.sandbox import Sandbox
from outrider.testing.launches import launch, message, people, target
from tests.support.intents import submit
from tests.support.old_databases import (
    OLD_TABLES,
    columns,
    copy_rows,
    migrate_to,
    other_database,
    rows,
    schema,
)
from tests.support.raw_sql import Refused, raw_sql
from tests.support.whole_runs import opened, work_until_terminal
from tests.support.workflows import email, office

pytestmark = pytest.mark.empty_database

__all__ = ["other_database"]

TABLES = (*OLD_TABLES, "run_events", "run_snapshots", "run_requests")


async def test_an_existing_ledger_stays_unchanged_when_workflows_are_introduced(
    database: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox() as sandbox:
        gateway = target("sms.all", "sms", sandbox.http_url)
        async with opened(other_database, tmp_path, gateway) as before:
            run_id = await launch(before, [message(Channel.SMS, "sms.all")], people(20))
            await work_until_terminal(before, run_id)
            await submit(before, "intent-1", "sms.all", to="+447700900123", message="Hi")
    await migrate_to(database, 3, monkeypatch)
    named = {table: await columns(database, table) for table in TABLES}
    await copy_rows(other_database, database, TABLES)
    kept = {table: await rows(database, table, named[table]) for table in TABLES}
    assert len(kept["channel_outbox"]) == 21
    store = make_store(database)
    assert (await store.migrate())[0] == "0004_workflows"
    await store.close()
    for table in TABLES:
        assert await rows(database, table, named[table]) == kept[table], table
    async with office(database, tmp_path) as made:
        await made.rule("lead_welcome", Channel.EMAIL, email())
        await made.routed("lead_welcome")
        rows_of_view = await made.notifications()
    assert [row.status for row in rows_of_view] == ["pending"]


async def test_a_database_migrated_in_steps_equals_a_fresh_one(
    database: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(other_database, tmp_path, target("sms.all", "noop", "noop:")):
        pass
    await migrate_to(database, 3, monkeypatch)
    store = make_store(database)
    await store.migrate()
    await store.close()
    assert await schema(database) == await schema(other_database)


async def test_the_database_itself_refuses_what_would_be_no_workflow(
    database: str, tmp_path: Path
) -> None:
    async with office(database, tmp_path) as made:
        await made.rule("lead_welcome", Channel.EMAIL, email())
        await made.routed("lead_welcome", event_id="w-1")
    async with raw_sql(database) as raw:
        for change in (
            "UPDATE domain_events SET event_id = 'another'",
            "UPDATE domain_events SET variables = '{}', subject = '{}'",
            "UPDATE domain_events SET status = 'lost'",
            "UPDATE domain_events SET status = 'received'",
            "UPDATE workflow_rules SET channel = 'pigeon'",
            "UPDATE channel_outbox SET kind = NULL",
            "UPDATE channel_outbox SET template = NULL",
            "INSERT INTO workflow_rules SELECT * FROM workflow_rules",
        ):
            with pytest.raises(Refused):
                await raw.run(change)
