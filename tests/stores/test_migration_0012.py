"""Migration 0012 on a database in use: closed attempts stay as they were, and stay closed (S2)."""

from pathlib import Path

import pytest

from outrider.bootstrap import make_store
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.testing.launches import target
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

HISTORY = "attempt_history"


async def test_the_attempts_of_an_older_version_are_kept_as_calls_that_were_no_repeats(
    database: str, other_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox(Faults(fail_rate=1)) as sandbox:
        gateway = target("sms", "sms", sandbox.http_url, maxAttempts=3)
        async with opened(other_database, tmp_path, gateway) as earlier, working(earlier):
            await submit(earlier, "intent")
            await until(earlier, "intent", ended)
        await migrate_to(database, 11, monkeypatch)
        await copy_rows(other_database, database, OLD_TABLES)
        named = await columns(database, HISTORY)
        assert "repeat" not in named
        kept = await rows(database, HISTORY, named)
        assert len(kept) == 2
        store = make_store(database)
        assert (await store.migrate())[0] == "0012_repeats"
        await store.close()
        assert await rows(database, HISTORY, named) == kept
        async with opened(database, tmp_path, gateway) as after:
            _, attempts = await until(after, "intent", ended)
        assert [(each.number, each.repeat) for each in attempts] == [(1, 0), (2, 0), (3, 0)]
    async with raw_sql(database) as raw:
        for change in (f"UPDATE {HISTORY} SET reason = 'x'", f"DELETE FROM {HISTORY}"):
            with pytest.raises(Exception, match="a closed attempt"):
                await raw.run(change)
