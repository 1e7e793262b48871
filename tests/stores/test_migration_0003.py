"""Migration 0003 on a database that has runs: each gets the log its rows imply, and goes on."""

from pathlib import Path

import pytest

from outrider.bootstrap import Outrider, make_store
from outrider.domain.ids import CampaignId
from outrider.domain.phases import Action
from outrider.domain.run_events import event_key
from outrider.domain.states import PhaseState
from outrider.gateways.sandbox import Sandbox, references_delivered
from outrider.testing.launches import target
from tests.support.controls import begun, control, created, until_ended, until_run, until_state
from tests.support.old_databases import (
    OLD_TABLES,
    columns,
    copy_rows,
    migrate_to,
    other_database,
    rows,
    schema,
)
from tests.support.run_logs import check_against_log, events_of, types_of
from tests.support.whole_runs import opened, working

pytestmark = pytest.mark.empty_database

__all__ = ["other_database"]

LAST = {
    "completed": "RunCompleted",
    "stopped": "RunCancelled",
    "paused": "RunPaused",
    "queued": "RunApproved",
}


async def lives(outrider: Outrider, sandbox: Sandbox) -> dict[str, CampaignId]:
    """Campaigns whose launches completed, were stopped, are paused, run, and were not begun."""
    made: dict[str, CampaignId] = {}
    made["completed"] = await created(outrider, 20)
    run_id = await begun(outrider, made["completed"])
    async with working(outrider):
        await until_ended(outrider, run_id)
        sandbox.change_faults({"latencyMs": 100})
        made["stopped"] = await created(outrider, 400)
        stopped = await begun(outrider, made["stopped"])
        await until_run(outrider, stopped, lambda _, counted: counted.sent >= 5)
        await control(outrider, made["stopped"], Action.STOP)
        await until_ended(outrider, stopped)
        made["paused"] = await created(outrider, 400)
        paused = await begun(outrider, made["paused"])
        await until_run(outrider, paused, lambda _, counted: counted.sent >= 5)
        await control(outrider, made["paused"], Action.PAUSE)
    made["queued"] = await created(outrider, 20)
    await begun(outrider, made["queued"])
    made["untouched"] = await created(outrider, 5)
    return made


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    return tmp_path / "provider.ndjson"


async def test_existing_runs_get_their_log_and_continue(
    database: str,
    other_database: str,
    tmp_path: Path,
    log_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Sandbox(log_path=log_path) as sandbox:
        gateway = target("sms.all", "sms", sandbox.http_url, maxAttempts=50)
        async with opened(other_database, tmp_path, gateway) as before:
            made = await lives(before, sandbox)
        await migrate_to(database, 2, monkeypatch)
        named = {table: await columns(database, table) for table in OLD_TABLES}
        await copy_rows(other_database, database)
        kept = {table: await rows(database, table, named[table]) for table in OLD_TABLES}
        store = make_store(database)
        assert "0003_run_log" in await store.migrate()
        await store.verify_schema()
        await store.close()
        for table in OLD_TABLES:
            assert await rows(database, table, named[table]) == kept[table], table

        sandbox.change_faults({"latencyMs": 0})
        async with opened(database, tmp_path, gateway) as after:
            for name, campaign_id in made.items():
                if name == "untouched":
                    continue
                (snapshot,) = await check_against_log(after, campaign_id)
                told = await events_of(after, snapshot.run_id)
                assert all(event.payload.get("adopted") for event in told)
                assert told[-1].type == LAST[name]
                for event in told:
                    assert event.idempotency_key == event_key(
                        event.run_id, event.step_id, 1, event.type, event.plan_version
                    )
            await control(after, made["paused"], Action.RESUME)
            async with working(after):
                for name in ("paused", "queued"):
                    await until_state(after, made[name], PhaseState.COMPLETED)
            for name in ("paused", "queued"):
                (snapshot,) = await check_against_log(after, made[name])
                types = await types_of(after, snapshot.run_id)
                assert types[-1] == "RunCompleted"
                assert types.count("RunStarted") == 1
    delivered = references_delivered(log_path)
    assert set(delivered.values()) == {1}


async def test_a_database_migrated_in_steps_equals_a_fresh_one(
    database: str,
    other_database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened(other_database, tmp_path, target("sms.all", "noop", "noop:")):
        pass
    await migrate_to(database, 2, monkeypatch)
    store = make_store(database)
    await store.migrate()
    await store.close()
    assert await schema(database) == await schema(other_database)
