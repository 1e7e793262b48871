"""Fixtures shared by all tests: both stores, migrated and empty, on real files and servers."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outrider.ports.store import Store
from outrider.stores.postgres.store import PostgresStore
from outrider.stores.sqlite.store import SqliteStore
from outrider.testing.postgres import (
    PrivatePostgres,
    create_database,
    drop_database,
    given_url,
)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A server for the whole session; every test makes its own database on it."""
    given = given_url()
    if given:
        yield given
        return
    # Not below pytest's folder: the next session closes that to the server's own user.
    with tempfile.TemporaryDirectory(prefix="outrider-postgres-") as folder:
        server = PrivatePostgres(Path(folder))
        yield server.url
        server.close()


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> str:
    """A migrated database to copy: that takes half as long as migrating each."""

    async def made() -> str:
        url = await create_database(postgres_url)
        store = PostgresStore(url)
        await store.migrate()
        await store.close()
        return url

    # In a thread, because whoever asks for it may have a loop that runs.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, made()).result()


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database without rows; a test that takes it runs on both stores.

    On Postgres its tables are there already, unless the test is marked `empty_database`.
    """
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/outrider.db"
        return
    server_url: str = request.getfixturevalue("postgres_url")
    template = None
    if request.node.get_closest_marker("empty_database") is None:
        template = request.getfixturevalue("postgres_template")
    url = await create_database(server_url, template)
    yield url
    await drop_database(server_url, url)


@pytest.fixture
async def store(database: str) -> AsyncIterator[Store]:
    """A migrated store of either kind."""
    if database.startswith("sqlite"):
        made: Store = SqliteStore(Path(database.removeprefix("sqlite:///")))
    else:
        made = PostgresStore(database)
    await made.migrate()
    yield made
    await made.close()
