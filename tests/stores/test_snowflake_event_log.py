"""The event log in Snowflake passes the public suite on fakesnow, and on an account if given one.

fakesnow is Snowflake's SQL on DuckDB, inside this process. It shows that the statements mean what
they should; it is no proof about Snowflake's own locks. Where it differs is said below. Against an
account, in a schema that is made and dropped:

    SNOWFLAKE_ACCOUNT=… SNOWFLAKE_USER=… SNOWFLAKE_PASSWORD=… SNOWFLAKE_WAREHOUSE=… \
    SNOWFLAKE_DATABASE=… pytest tests/stores/test_snowflake_event_log.py
"""

import os
import secrets
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from outrider.domain.errors import InvalidInput, SchemaMismatch, StoreUnavailable
from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent
from outrider.limits.stores import SNOWFLAKE_WINDOW_EVENTS
from outrider.ports.event_log import EventDraft
from outrider.stores.snowflake.connection import Connection, connector
from outrider.stores.snowflake.event_log import SnowflakeEventLog
from outrider.testing import event_log_suite as suite
from outrider.testing.event_log_suite import EventLogBench, EventLogConformance, Tampering

NOT_ENFORCED = (
    "Snowflake enforces no unique key and has no triggers: only grants keep others from the log"
)
GIVEN = {
    name.lower(): os.environ[f"SNOWFLAKE_{name}"]
    for name in (
        "ACCOUNT", "USER", "PASSWORD", "AUTHENTICATOR", "PRIVATE_KEY_FILE", "TOKEN", "ROLE",
        "WAREHOUSE", "DATABASE",
    )
    if f"SNOWFLAKE_{name}" in os.environ
}  # fmt: skip


class BreakingCursor:
    """A cursor whose line is lost just before a COMMIT arrives, or just after it was done."""

    def __init__(self, cursor: Any, done: bool) -> None:
        self._cursor = cursor
        self._done = done

    def execute(self, command: str, params: dict[str, Any] | None = None, /) -> object:
        if command == "COMMIT":
            # A session that is lost is rolled back, or was committed already.
            self._cursor.execute("COMMIT" if self._done else "ROLLBACK")
            raise ConnectionResetError("the line is lost")
        return self._cursor.execute(command, params)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class BreakingConnection:
    def __init__(self, connection: Connection, done: bool) -> None:
        self._connection = connection
        self._done = done

    def cursor(self) -> BreakingCursor:
        return BreakingCursor(self._connection.cursor(), self._done)

    def close(self) -> None:
        self._connection.close()


class FakeCursor:
    """fakesnow lets DuckDB's errors through, and a DuckDB writer is refused where a Snowflake one
    waits: here both are the connector's error for a lock that was not granted in time."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def execute(self, command: str, params: dict[str, Any] | None = None, /) -> object:
        import duckdb
        from snowflake.connector.errors import OperationalError

        try:
            return self._cursor.execute(command, params)
        except duckdb.TransactionException as error:
            raise OperationalError(msg=str(error), errno=625) from error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)


class FakeConnection:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def cursor(self) -> FakeCursor:
        return FakeCursor(self._connection.cursor())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Connection]]:
    import fakesnow.info_schema
    from fakesnow.instance import FakeSnow

    # For its MERGE fakesnow makes a table and notes its comment in another database, which DuckDB
    # refuses inside a transaction. The note is left out.
    monkeypatch.setattr(fakesnow.info_schema, "insert_table_comment_sql", lambda *_: "SELECT 1")
    account = FakeSnow()
    yield lambda: FakeConnection(account.connect(database="outrider", schema="log"))
    account.duck_conn.close()


async def benches(connect: Callable[[], Connection]) -> AsyncIterator[EventLogBench]:
    here, there = (SnowflakeEventLog(connect) for _ in range(2))
    before, after = (
        SnowflakeEventLog(lambda done=done: BreakingConnection(connect(), done))  # type: ignore[misc]
        for done in (False, True)
    )

    async def new_run() -> RunId:
        return RunId(str(uuid.uuid4()))

    async def tamper(_tampering: Tampering, _event: RunEvent) -> None:
        raise AssertionError(NOT_ENFORCED)

    await here.migrate()
    yield EventLogBench(here, there, before, after, new_run, tamper, cannot_refuse=NOT_ENFORCED)
    for log in (here, there, before, after):
        await log.close()


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result:UserWarning")
class TestFakesnow(EventLogConformance):
    @pytest.fixture
    async def bench(self, fake: Callable[[], Connection]) -> AsyncIterator[EventLogBench]:
        async for bench in benches(fake):
            yield bench

    async def test_more_events_than_a_statement_takes_are_still_one_append(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        many = suite.steps(0, SNOWFLAKE_WINDOW_EVENTS + 1)
        with pytest.raises(StoreUnavailable):
            await bench.breaks_before_commit.append(run_id, suite.PLAN, many, suite.NOON)
        assert not await suite.everything(bench.here, run_id)
        assert len(await suite.append_to(bench.here, run_id, *many)) == len(many)

    async def test_migrating_again_changes_nothing(
        self, fake: Callable[[], Connection], bench: EventLogBench, run_id: RunId
    ) -> None:
        await suite.append_to(bench.here, run_id, suite.APPROVED)
        again = SnowflakeEventLog(fake)
        await again.migrate()
        assert len(await suite.everything(again, run_id)) == 1
        await again.close()

    async def test_sequences_a_known_event_took_are_gaps_and_later_ones_are_above(
        self, bench: EventLogBench, run_id: RunId
    ) -> None:
        (first,) = await suite.append_to(bench.here, run_id, suite.APPROVED)
        assert not await suite.append_to(bench.here, run_id, suite.APPROVED)
        (second,) = await suite.append_to(bench.there, run_id, suite.STARTED)
        assert second.run_seq > first.run_seq + 1


@pytest.mark.skipif(bool(GIVEN), reason="it is tested on Snowflake itself")
def test_no_account_was_given() -> None:
    pytest.skip("NOT TESTED ON SNOWFLAKE ITSELF: set SNOWFLAKE_ACCOUNT and the others to do so")


class TestAccount(EventLogConformance):
    """The same suite on a real account: about a statement a second, so allow for some minutes."""

    __test__ = bool(GIVEN)

    @pytest.fixture
    async def bench(self) -> AsyncIterator[EventLogBench]:
        schema = f"OUTRIDER_TEST_{secrets.token_hex(4).upper()}"
        admin = connector(**GIVEN)()
        cursor = admin.cursor()
        cursor.execute(f"CREATE SCHEMA {schema}")
        try:
            async for bench in benches(connector(**GIVEN, schema=schema)):
                yield bench
        finally:
            cursor.execute(f"DROP SCHEMA {schema}")
            admin.close()


@pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result:UserWarning")
async def test_a_log_without_its_tables_says_so(fake: Callable[[], Connection]) -> None:
    log = SnowflakeEventLog(fake)
    with pytest.raises(SchemaMismatch) as refused:
        await suite.everything(log, RunId("r"))
    assert "migrate" in str(refused.value.hint)
    await log.close()


async def test_an_account_that_cannot_be_reached_is_a_store_that_is_unavailable() -> None:
    def refuse() -> Connection:
        raise ConnectionRefusedError("nobody there")

    log = SnowflakeEventLog(refuse)
    with pytest.raises(StoreUnavailable, match="nobody there"):
        await log.append(RunId("r"), suite.PLAN, [EventDraft(suite.APPROVED.type)], suite.NOON)
    await log.close()


def test_without_the_package_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "snowflake.connector", None)
    with pytest.raises(InvalidInput) as refused:
        connector(account="a")
    assert refused.value.hint == 'pip install "outrider[snowflake]"'
