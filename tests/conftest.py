"""Fixtures shared by all tests: both stores, migrated and empty, on real files and servers."""

import tempfile
from collections.abc import AsyncIterator, Iterator
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


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of an empty database; a test that takes it runs on both stores."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/outrider.db"
        return
    server_url: str = request.getfixturevalue("postgres_url")
    url = await create_database(server_url)
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
