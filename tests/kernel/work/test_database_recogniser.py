"""The recogniser: which databases are taken for restored ones, and which are not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest

from outrider.bootstrap import Outrider
from outrider.domain.restored_database import RestoredDatabase
from outrider.stores.postgres.store import PostgresStore
from outrider.testing.postgres import database_url
from tests.support.database_copies import copied
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened


async def recognised(outrider: Outrider) -> str | None:
    found = await outrider.database_recogniser.recognise()
    return None if found is None else found.reason


async def test_a_database_that_stayed_where_it_was_is_recognised(
    database: str, tmp_path: Path
) -> None:
    for _ in range(2):
        async with opened(database, tmp_path) as outrider:
            assert await recognised(outrider) is None
            assert await recognised(outrider) is None


async def test_a_copy_is_recognised_as_one_on_a_machine_that_never_saw_it(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path) as outrider:
        assert await recognised(outrider) is None
    async with (
        copied(database, tmp_path / "copy") as copy,
        opened(copy, tmp_path / "copy") as outrider,
    ):
        assert await recognised(outrider) == RestoredDatabase.MOVED
        # Whoever comes later is told the same.
        assert await recognised(outrider) == RestoredDatabase.MOVED
        await outrider.database_releaser.release("test")
        assert await recognised(outrider) is None


async def test_a_copy_of_a_database_that_no_worker_used_is_none(
    database: str, tmp_path: Path
) -> None:
    async with (
        copied(database, tmp_path / "copy") as copy,
        opened(copy, tmp_path / "copy") as outrider,
    ):
        assert await recognised(outrider) is None


async def test_a_database_that_went_back_in_time_is_recognised_by_what_the_machine_remembers(
    database: str, tmp_path: Path
) -> None:
    """A file that was overwritten, a dump restored in place: it is where it was."""
    async with opened(database, tmp_path) as outrider:
        assert await recognised(outrider) is None
        async with raw_sql(database) as raw:
            await raw.run("UPDATE database_places SET noted_at = '2020-01-01T00:00:00.000000Z'")
        assert await recognised(outrider) == RestoredDatabase.WENT_BACK


async def test_a_memory_that_cannot_be_read_is_none(database: str, tmp_path: Path) -> None:
    async with opened(database, tmp_path) as outrider:
        assert await recognised(outrider) is None
        for file in outrider.settings.spool.glob("*.noted"):
            file.write_text("nonsense")
        assert await recognised(outrider) is None


def remember_a_later_position(outrider: Outrider) -> None:
    """As if the log had been written further than it is now, at the same time."""
    [file] = outrider.settings.spool.glob("*.noted")
    noted_at, releases, position = file.read_text().split()
    file.write_text(f"{noted_at} {releases} {int(position) + 2**40}")


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_server_whose_log_is_behind_where_it_was_is_recognised_until_its_release(
    database: str, tmp_path: Path
) -> None:
    """A disk that was put back to a snapshot of half a minute ago: nothing else shows it."""
    async with opened(database, tmp_path) as outrider:
        assert await recognised(outrider) is None
        remember_a_later_position(outrider)
        assert await recognised(outrider) == RestoredDatabase.WENT_BACK
        await outrider.database_releaser.release("test")
        assert await recognised(outrider) is None
        remember_a_later_position(outrider)
        assert await recognised(outrider) == RestoredDatabase.WENT_BACK


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_new_connection_to_a_log_that_is_behind_quarantines_the_database(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path) as outrider:
        store = outrider.store
        assert await recognised(outrider) is None
        place = await store.place()
        assert place.log_position is not None
        remember_a_later_position(outrider)
        ahead = place._replace(log_position=place.log_position + 2**40)
        recogniser = outrider.database_recogniser
        remembered = recogniser._memory.read()
        store.stay_at(ahead, lambda other: recogniser._script(other, remembered))
        assert isinstance(store, PostgresStore)
        assert store._pool is not None
        await store._pool.expire_connections()
        found = await outrider.database_releaser.quarantine()
        assert found is not None
        assert found.reason == RestoredDatabase.WENT_BACK


@asynccontextmanager
async def stranger(database: str) -> AsyncIterator[str]:
    """The URL of a role that is told nothing about the server's identity."""
    name = f"stranger_{uuid4().hex[:12]}"
    async with raw_sql(database) as raw:
        await raw.run(f"CREATE ROLE {name} LOGIN PASSWORD 'secret'")
        await raw.run("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    parts = urlsplit(database)
    host = parts.netloc.rpartition("@")[2]
    yield urlunsplit(parts._replace(netloc=f"{name}:secret@{host}"))
    async with raw_sql(database_url(database, "postgres")) as raw:
        await raw.run(f"DROP ROLE {name}")


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
async def test_a_role_that_is_refused_the_servers_identity_still_sees_timeline_and_log_position(
    database: str,
) -> None:
    async with stranger(database) as url:
        store = PostgresStore(url)
        place = await store.place()
        await store.close()
    assert place.name.startswith("server, timeline 0000")
    assert place.log_position
