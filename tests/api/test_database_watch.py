"""Whether a server is ready, where its database is busy: for a while as before, not for ever."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from outrider.api.database_watch import DatabaseWatch
from outrider.domain.errors import StoreUnavailable
from outrider.kernel.transactions import ledger_clock
from outrider.limits.api import ApiLimits
from outrider.stores.sqlite.store import SqliteStore

BUSY_SECONDS = 1.0
PATIENCE_SECONDS = 30


async def test_a_writer_that_never_gets_its_turn_makes_a_server_unready(tmp_path: Path) -> None:
    """A check that was given up at every look told nobody how it ended."""
    path = tmp_path / "outrider.db"
    store = SqliteStore(path, busy_seconds=BUSY_SECONDS)
    await store.migrate()
    watch = DatabaseWatch(store, ApiLimits())

    async def write() -> None:
        now = datetime.now(UTC)
        await store.write(ledger_clock.keep(now, now + timedelta(days=1)))

    async def is_ready() -> bool:
        try:
            await watch.require("room", write())
        except StoreUnavailable:
            return False
        return True

    assert await is_ready()
    somebody = apsw.Connection(str(path))
    somebody.execute("BEGIN IMMEDIATE")
    assert await is_ready()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await is_ready():
            pass
    # The watch says so itself, or SQLite does where its own patience ended first.
    with pytest.raises(StoreUnavailable, match=r"busy|locked"):
        await watch.require("room", write())
    somebody.execute("ROLLBACK")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_ready():
            pass
    somebody.close()
    await store.close()
