"""Postgres is migrated while servers are at work: neither turns the other away."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from outrider.domain.errors import StoreUnavailable
from outrider.stores.migrations import Migration
from outrider.stores.postgres import migrating
from outrider.stores.postgres import store as postgres
from outrider.stores.postgres.store import PostgresStore
from outrider.testing.postgres import create_database, drop_database
from tests.support.eventually import eventually
from tests.support.old_databases import migrate_to

RELEASED = 14
"""So many migrations had the release before."""
PATIENCE_SECONDS = 60.0
WATCH_SECONDS = 0.01
WAITING = (
    "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)"
    " WHERE NOT granted AND relation IS NOT NULL AND datname = current_database()"
)


@pytest.fixture
async def released(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    """A database of the release before."""
    database = await create_database(postgres_url)
    await migrate_to(database, RELEASED, monkeypatch)
    yield database
    await drop_database(postgres_url, database)


@pytest.mark.parametrize(
    ("first", "second"),
    [("channel_outbox", "job_queue"), ("job_queue", "channel_outbox"), ("run_events", "job_queue")],
)
async def test_a_server_continues_in_whatever_order_it_writes(
    released: str, first: str, second: str
) -> None:
    """The two waited for each other, until Postgres ended one of them."""
    store, server = PostgresStore(released), await asyncpg.connect(released)
    try:
        async with server.transaction():
            await server.execute(f"LOCK TABLE {first} IN ROW EXCLUSIVE MODE")
            migrating = asyncio.create_task(store.migrate())

            async def is_so() -> bool:
                return bool(await server.fetchval(WAITING))

            await eventually(is_so, seconds=PATIENCE_SECONDS)
            await server.execute(f"LOCK TABLE {second} IN ROW EXCLUSIVE MODE")
        assert await migrating == [each.name for each in postgres.MIGRATIONS[RELEASED:]]
    finally:
        await server.close()
        await store.close()


async def test_a_migration_gives_up_after_a_while_and_leaves_nothing_behind(
    released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's transaction that does not end kept it, and everybody behind it, for minutes."""
    monkeypatch.setattr(migrating, "POSTGRES_MIGRATION_TRIES", 2)
    monkeypatch.setattr(migrating, "POSTGRES_MIGRATION_LOCK_MS", 50)
    store, somebody = PostgresStore(released), await asyncpg.connect(released)
    try:
        async with somebody.transaction():
            await somebody.execute("LOCK TABLE job_queue IN ROW EXCLUSIVE MODE")
            with pytest.raises(StoreUnavailable, match="lock timeout"):
                await store.migrate()
            applied = await somebody.fetchval("SELECT count(*) FROM schema_migrations")
            assert applied == RELEASED
        assert len(await store.migrate()) == len(postgres.MIGRATIONS) - RELEASED
    finally:
        await somebody.close()
        await store.close()


async def test_no_row_is_read_through_for_a_rule_that_new_ones_keep(released: str) -> None:
    """Millions of jobs would be, with everything locked."""
    store, connection = PostgresStore(released), await asyncpg.connect(released)
    try:
        await store.migrate()
        rules = await connection.fetch(
            "SELECT conname, convalidated FROM pg_constraint"
            " WHERE conrelid = 'job_queue'::regclass AND contype = 'c'"
            " AND pg_get_constraintdef(oid) ~ 'logical_attempts_max|retry_delay_seconds'"
        )
        assert [each["convalidated"] for each in rules] == [False, False]
    finally:
        await connection.close()
        await store.close()


BESIDE = Migration(
    "9999_index",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS channel_outbox_beside ON channel_outbox (updated_at)",
)


async def test_an_index_is_built_while_servers_write_to_its_table(
    released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A10: building it in a transaction kept every writer out."""
    store, server = PostgresStore(released), await asyncpg.connect(released)
    writer = await asyncpg.connect(released)
    try:
        await store.migrate()
        monkeypatch.setattr(postgres, "MIGRATIONS", [*postgres.MIGRATIONS, BESIDE])
        async with server.transaction():
            # The index waits for this transaction, and nobody waits for the index.
            await server.execute("LOCK TABLE channel_outbox IN ROW EXCLUSIVE MODE")
            building = asyncio.create_task(store.migrate())

            async def is_building() -> bool:
                query = "SELECT count(*) FROM pg_stat_progress_create_index"
                return bool(await writer.fetchval(query))

            await eventually(is_building, seconds=PATIENCE_SECONDS)
            async with writer.transaction():
                await writer.execute("LOCK TABLE channel_outbox IN ROW EXCLUSIVE MODE NOWAIT")
            assert not building.done()
        assert await building == [BESIDE.name]
    finally:
        await server.close()
        await writer.close()
        await store.close()


async def test_an_index_that_was_left_unfinished_is_built_again(
    released: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, connection = PostgresStore(released), await asyncpg.connect(released)
    try:
        await store.migrate()
        await connection.execute(BESIDE.sql)
        await connection.execute(
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'channel_outbox_beside'::regclass"
        )
        monkeypatch.setattr(postgres, "MIGRATIONS", [*postgres.MIGRATIONS, BESIDE])
        assert await store.migrate() == [BESIDE.name]
        assert await connection.fetchval(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = 'channel_outbox_beside'::regclass"
        )
    finally:
        await connection.close()
        await store.close()
