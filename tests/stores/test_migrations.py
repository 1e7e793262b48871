"""Migrations and statements: what a database may have against what the code has, on both stores."""

import asyncio
import re
from pathlib import Path

import apsw
import asyncpg
import pytest

import outrider.kernel
from outrider.bootstrap import make_store
from outrider.domain.errors import SchemaMismatch
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.kernel.transactions import paging
from outrider.kernel.transactions.overview import overview_page
from outrider.stores.migrations import Applied, Migration, load_migrations, pending
from outrider.stores.postgres import store as postgres
from outrider.stores.sqlite import store as sqlite
from outrider.stores.sqlite.functions import add_functions
from outrider.stores.statements import to_positional
from tests.support.raw_sql import raw_sql

pytestmark = pytest.mark.empty_database

FUTURE = "9999_from_the_future"
SHARED_HISTORY = [migration.name for migration in sqlite.MIGRATIONS]


def migrations_of(database: str) -> list[Migration]:
    return sqlite.MIGRATIONS if database.startswith("sqlite") else postgres.MIGRATIONS


async def test_migrating_twice_changes_nothing_the_second_time(database: str) -> None:
    store = make_store(database)
    names = [migration.name for migration in migrations_of(database)]
    assert await store.migrate() == names
    assert await store.migrate() == []
    await store.verify_schema()
    await store.close()


async def test_each_migration_is_recorded_with_the_checksum_of_its_file(database: str) -> None:
    store = make_store(database)
    await store.migrate()
    await store.close()
    async with raw_sql(database) as raw:
        recorded = dict(await raw.run("SELECT name, sha256 FROM schema_migrations"))
    assert recorded == {migration.name: migration.sha256 for migration in migrations_of(database)}


async def test_two_processes_that_migrate_at_the_same_time_apply_each_migration_once(
    database: str,
) -> None:
    stores = [make_store(database) for _ in range(3)]
    applied = await asyncio.gather(*(store.migrate() for store in stores))
    names = [migration.name for migration in migrations_of(database)]
    assert [name for names_of_one in applied for name in names_of_one] == names
    for store in stores:
        await store.close()


async def test_a_database_newer_than_the_code_is_refused_and_not_touched(database: str) -> None:
    async with raw_sql(database) as raw:
        await raw.run(
            "CREATE TABLE schema_migrations "
            "(name text PRIMARY KEY, sha256 text NOT NULL, applied_at text NOT NULL)"
        )
        await raw.run(f"INSERT INTO schema_migrations VALUES ('{FUTURE}', 'x', 'then')")
        store = make_store(database)
        for refused in (store.migrate, store.verify_schema):
            with pytest.raises(SchemaMismatch, match=f"newer than this code: it has {FUTURE}"):
                await refused()
        await store.close()
        assert await raw.tables() == {"schema_migrations"}
        assert await raw.run("SELECT name FROM schema_migrations") == [(FUTURE,)]


ADDS = Migration(FUTURE, "CREATE TABLE added (id text)")
BREAKS = Migration(
    FUTURE, "-- Breaks the version before: it reads the column.\nDROP TABLE audience_uploads"
)


async def _migrated_further(
    database: str, migration: Migration, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By code of the next version."""
    module = sqlite if database.startswith("sqlite") else postgres
    with monkeypatch.context() as patched:
        patched.setattr(module, "MIGRATIONS", [*module.MIGRATIONS, migration])
        next_version = make_store(database)
        assert migration.name in await next_version.migrate()
        await next_version.close()


async def test_code_goes_on_after_a_migration_of_the_next_version_that_only_adds(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A10: one additive migration, and the servers of before were not ready and workers exited."""
    store = make_store(database)
    await store.migrate()
    await _migrated_further(database, ADDS, monkeypatch)
    await store.verify_schema()
    assert await store.migrate() == []
    await store.close()


async def test_code_is_refused_after_a_migration_that_breaks_it(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(database)
    await store.migrate()
    await _migrated_further(database, BREAKS, monkeypatch)
    for refused in (store.migrate, store.verify_schema):
        with pytest.raises(SchemaMismatch, match=f"newer than this code: it has {FUTURE}"):
            await refused()
    await store.close()


async def test_a_database_of_an_earlier_version_learns_which_migrations_break_code(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(database)
    await store.migrate()
    async with raw_sql(database) as raw:
        await raw.run("ALTER TABLE schema_migrations DROP COLUMN is_breaking")
    await store.verify_schema()
    await _migrated_further(database, ADDS, monkeypatch)
    await store.verify_schema()
    await store.close()


def test_a_migration_that_takes_something_away_says_that_it_breaks_the_version_before() -> None:
    """Those up to 0047 came before versions could run beside each other."""
    takes_away = re.compile(r"\bDROP (TABLE|COLUMN|VIEW)|\bRENAME\b|SET NOT NULL|\bTYPE\b", re.I)
    silent = [
        migration.name
        for migration in [*sqlite.MIGRATIONS, *postgres.MIGRATIONS]
        if migration.name > "0048"
        and takes_away.search(migration.sql)
        and not migration.is_breaking
    ]
    assert silent == []


async def test_a_migration_that_was_edited_after_it_landed_is_refused(database: str) -> None:
    store = make_store(database)
    await store.migrate()
    async with raw_sql(database) as raw:
        await raw.run(f"UPDATE schema_migrations SET sha256 = '{'0' * 64}'")
    for refused in (store.migrate, store.verify_schema):
        with pytest.raises(SchemaMismatch, match="a different form") as mismatch:
            await refused()
        assert mismatch.value.hint is not None
        assert "never be edited" in mismatch.value.hint
    await store.close()


async def test_an_empty_database_says_to_run_outrider_migrate(database: str) -> None:
    store = make_store(database)
    with pytest.raises(SchemaMismatch, match=SHARED_HISTORY[0]) as mismatch:
        await store.verify_schema()
    assert mismatch.value.hint == "run `outrider migrate` first"
    with pytest.raises(SchemaMismatch) as unusable:
        await store.read(overview_page(DEFAULT_SCOPE, paging.LAST, 1))
    assert unusable.value.hint == "run `outrider migrate` first"
    await store.close()


def test_pending_migrations_are_those_the_database_lacks_in_order() -> None:
    first, second, third = (Migration(f"000{number}", f"sql {number}") for number in (1, 2, 3))
    applied = {first.name: Applied(first.sha256, is_breaking=False)}
    assert pending([first, second, third], applied) == [second, third]
    assert pending([first], applied) == []


def test_migrations_are_numbered_in_order_and_alike_in_both_stores(tmp_path: Path) -> None:
    assert [migration.name for migration in postgres.MIGRATIONS] == SHARED_HISTORY
    numbers = [int(name.split("_")[0]) for name in SHARED_HISTORY]
    assert numbers == sorted(set(numbers))
    for name in ("0002_b", "0001_a"):
        (tmp_path / f"{name}.sql").write_text("SELECT 1")
    assert [migration.name for migration in load_migrations(tmp_path)] == ["0001_a", "0002_b"]


def test_both_stores_have_exactly_the_same_statement_names() -> None:
    assert sqlite.STATEMENTS.keys() == postgres.STATEMENTS.keys()


def test_every_statement_is_asked_for_in_the_kernel_and_nothing_else_is() -> None:
    folder = Path(outrider.kernel.__file__).parent
    asked = {
        name
        for path in folder.rglob("*.py")
        for name in re.findall(r'\bask(?:_alone)?\(\s*"(\w+)"', path.read_text())
    }
    assert asked == set(sqlite.STATEMENTS)


COPIED = {name for name, named in postgres.STATEMENTS.items() if named.sql.startswith("COPY")}
"""These take columns by their names, and cannot be prepared."""


@pytest.mark.parametrize("name", sorted(sqlite.STATEMENTS.keys() - COPIED))
def test_every_statement_takes_the_same_parameters_in_both_stores(name: str) -> None:
    parameters = [set(to_positional(store.STATEMENTS[name].sql)[1]) for store in (sqlite, postgres)]
    assert parameters[0] == parameters[1]


async def test_every_statement_prepares_on_its_real_database(database: str) -> None:
    store = make_store(database)
    await store.migrate()
    await store.close()
    broken = {}
    if database.startswith("sqlite"):
        connection = apsw.Connection(database.removeprefix("sqlite:///"))
        add_functions(connection)
        for name, named in sqlite.STATEMENTS.items():
            unbound = dict.fromkeys(to_positional(named.sql)[1])
            try:
                connection.execute(f"EXPLAIN {named.sql}", unbound).fetchall()
            except apsw.Error as error:
                broken[name] = str(error)
        connection.close()
    else:
        server = await asyncpg.connect(database)
        for name, named in postgres.STATEMENTS.items():
            if name in COPIED:
                continue
            try:
                await server.prepare(to_positional(named.sql)[0])
            except asyncpg.PostgresError as error:
                broken[name] = str(error)
        await server.close()
    assert broken == {}
