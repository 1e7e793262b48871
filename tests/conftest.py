"""Fixtures shared by all tests: both stores, migrated and empty, on real files and servers."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
import structlog
from hypothesis import settings

from outrider.ports.store import Store
from outrider.stores.postgres.store import PostgresStore
from outrider.stores.sqlite.store import SqliteStore
from outrider.testing.postgres import (
    PrivatePostgres,
    create_database,
    drop_database,
    given_url,
)
from tests.support.databases import DatabasePool

if TYPE_CHECKING:
    from tests.support.temporal_server import TemporalServer

Answer = TypeVar("Answer")

MEMORY_FOLDER = Path("/dev/shm")
MEMORY_BYTES = 8 * 1024**3

STORM_SECONDS = 3600
"""How long a storm may take; the limit of all other tests is in pyproject.toml."""

# How long an example takes says more of the machine than of the code.
settings.register_profile("outrider", deadline=None)
settings.load_profile("outrider")

# As if nothing were configured, but for tracebacks: to draw one costs more than many tests do.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


def keep_files_in_memory() -> None:
    """Where there is plenty of it, unless a folder was named: these tests sync their files very
    often, and kill processes, but never cut the power."""
    if "TMPDIR" in os.environ or not MEMORY_FOLDER.is_dir():
        return
    found = os.statvfs(MEMORY_FOLDER)
    has_room = found.f_bavail * found.f_frsize >= MEMORY_BYTES
    if has_room and not found.f_flag & os.ST_NOEXEC and os.access(MEMORY_FOLDER, os.W_OK):
        # In the environment, so that all processes of a test run agree on it.
        os.environ["TMPDIR"] = str(MEMORY_FOLDER)
        tempfile.tempdir = None


keep_files_in_memory()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--storms", action="store_true", help="run the long versions too: real outages, many items"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    storms = [item for item in items if item.get_closest_marker("storm") is not None]
    if config.getoption("--storms"):
        for storm in storms:
            storm.add_marker(pytest.mark.timeout(STORM_SECONDS))
    elif storms:
        config.hook.pytest_deselected(items=storms)
        items[:] = [item for item in items if item.get_closest_marker("storm") is None]


@pytest.fixture(autouse=True)
def spool_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What workers keep beside the database would otherwise be left where the tests are run."""
    monkeypatch.setenv("OUTRIDER_SPOOL", str(tmp_path / "spool"))


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
def database_pool(postgres_url: str) -> DatabasePool:
    """Migrated databases without rows: to migrate one for each test would take far longer."""

    async def made() -> DatabasePool:
        template = await create_database(postgres_url)
        await _migrated(PostgresStore(template))
        return await DatabasePool.of(postgres_url, template)

    return _beside(made())


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file without rows, to copy."""
    file = tmp_path_factory.mktemp("template") / "outrider.db"
    _beside(_migrated(SqliteStore(file)))
    return file


async def _migrated(store: Store) -> None:
    await store.migrate()
    await store.close()


def _beside(work: Coroutine[Any, Any, Answer]) -> Answer:
    """In a thread, because whoever asks for a fixture may have a loop that runs."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, work).result()


@pytest.fixture(params=["sqlite", "postgres"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of a database without rows; a test that takes it runs on both stores.

    Its tables are there already, unless the test is marked `empty_database`.
    """
    is_empty = request.node.get_closest_marker("empty_database") is not None
    if request.param == "sqlite":
        if not is_empty:
            shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "outrider.db")
        yield f"sqlite:///{tmp_path}/outrider.db"
    elif is_empty:
        server_url: str = request.getfixturevalue("postgres_url")
        url = await create_database(server_url)
        yield url
        await drop_database(server_url, url)
    else:
        pool: DatabasePool = request.getfixturevalue("database_pool")
        url = await pool.take()
        yield url
        await pool.give_back(url)


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


@pytest.fixture(scope="session")
def temporal_server() -> Iterator["TemporalServer"]:
    """A server for the whole session; every test has a task queue of its own on it."""
    # A third of a second with its library, which most processes of a test run do without.
    from tests.support.temporal_server import running_temporal

    with running_temporal(durable=False) as server:
        _beside(server.until_ready())
        yield server


@pytest.fixture(scope="session")
def conductor_url(request: pytest.FixtureRequest) -> str:
    """A server for all processes of the session; every test has a domain of its own on it."""
    from tests.support.conductor_server import shared_conductor

    worker = getattr(request.config, "workerinput", {})
    return shared_conductor(worker.get("testrunuid", str(os.getpid())))
