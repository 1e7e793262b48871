"""Emitting inside the caller's own transaction: with their data, or not at all."""

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from outrider import transactional
from outrider.domain.emissions import Emission
from outrider.domain.errors import Conflict, IdempotencyConflict, InvalidInput
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.states import Channel
from outrider.kernel.transactions.paging import LAST
from outrider.stores.statements import to_positional
from outrider.transactional import emit_in_postgres, emit_in_sqlite
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import working
from tests.support.workflows import LEAD, Office, email, office

BUSY_MS = 10_000
QUOTE = Emission("q-17", "quote_sent", {"lead": LEAD}, {"quote": {"number": "17"}})
COLUMNS = (
    "tenant_id", "workspace_id", "trigger_name", "occurred_at", "subject", "variables",
    "fingerprint", "trace_parent", "status", "attempts", "routes", "error",
)  # fmt: skip
"""Of an event, but for its ids and the moment of its arrival."""
NEVER = datetime.max.replace(tzinfo=timezone(-timedelta(hours=1)))
OTHER = Emission("q-17", "quote_sent", {"lead": LEAD}, {"quote": {"number": "18"}})


class RolledBack(Exception):
    """The caller has changed its mind."""


class Business:
    """Somebody's own program, with a table of its own in the same database."""

    def __init__(self, database: str) -> None:
        self._database = database

    async def sell(self, emission: Emission, *, fails: bool = False) -> bool:
        """A quote and its event in one transaction; whether the event is new."""
        if self._database.startswith("sqlite"):
            return await asyncio.to_thread(self._sell_in_sqlite, emission, fails)
        connection = await asyncpg.connect(self._database)
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO quotes VALUES ($1)", emission.event_id)
                is_new = await emit_in_postgres(connection, emission)
                if fails:
                    raise RolledBack
                return is_new
        finally:
            await connection.close()

    def _sell_in_sqlite(self, emission: Emission, fails: bool) -> bool:
        connection = apsw.Connection(self._database.removeprefix("sqlite:///"))
        connection.set_busy_timeout(BUSY_MS)
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.execute("INSERT INTO quotes VALUES (?)", (emission.event_id,))
            is_new = emit_in_sqlite(connection, emission)
            if fails:
                raise RolledBack
            connection.execute("COMMIT")
            return is_new
        finally:
            # Whatever was not committed is rolled back.
            connection.close()

    async def quotes(self) -> int:
        async with raw_sql(self._database) as raw:
            count: int = await raw.value("SELECT count(*) FROM quotes")
            return count


@asynccontextmanager
async def business_of(database: str) -> AsyncIterator[Business]:
    async with raw_sql(database) as raw:
        await raw.run("CREATE TABLE quotes (id text)")
        yield Business(database)
        await raw.run("DROP TABLE quotes")


@pytest.fixture
async def desk(database: str, tmp_path: Path) -> AsyncIterator[Office]:
    async with office(database, tmp_path) as made:
        yield made


@pytest.fixture
async def business(desk: Office) -> AsyncIterator[Business]:
    async with business_of(desk.database) as made:
        yield made


async def events(desk: Office) -> list[tuple[str, str]]:
    found = await desk.outrider.event_intake.page(DEFAULT_SCOPE, LAST, 10)
    return [(each.event_id, each.status) for each in found]


async def test_a_rolled_back_event_was_never_emitted_and_a_committed_one_is_sent_once(
    desk: Office, business: Business
) -> None:
    await desk.rule("quote_sent", Channel.EMAIL, email())
    with pytest.raises(RolledBack):
        await business.sell(QUOTE, fails=True)
    assert (await business.quotes(), await events(desk)) == (0, [])
    assert await business.sell(QUOTE)
    assert not await business.sell(QUOTE)
    assert (await business.quotes(), await events(desk)) == (2, [("q-17", "received")])
    async with working(desk.outrider):
        [row] = await desk.until(lambda rows: [row.status for row in rows] == ["succeeded"])
    assert row.recipient == "Ada@example.test"
    assert list(desk.sandbox.deliveries.values()) == [1]
    told = await desk.outrider.event_explainer.explain(DEFAULT_SCOPE, "q-17", "ada@example.test")
    assert "It was caused by the event q-17 (quote_sent), by step 1 of its rule." in told
    assert [sentence for sentence in told if sentence.startswith("Attempt 1 was opened at")]


async def test_two_callers_at_once_with_the_same_event_make_one(
    desk: Office, business: Business
) -> None:
    news = await asyncio.gather(*(business.sell(QUOTE) for _ in range(4)))
    assert sorted(news) == [False, False, False, True]
    assert await events(desk) == [("q-17", "received")]
    assert await business.quotes() == 4


async def test_another_content_is_a_conflict_that_leaves_the_callers_data_alone(
    desk: Office, business: Business
) -> None:
    assert await business.sell(QUOTE)
    with pytest.raises(IdempotencyConflict, match="'q-17' was already emitted"):
        await business.sell(OTHER)
    assert await business.quotes() == 1
    assert await business.sell(Emission("q-18", "quote_sent"))
    # The other doors say the same.
    with pytest.raises(IdempotencyConflict):
        await desk.outrider.event_intake.emit(DEFAULT_SCOPE, OTHER)
    _, is_new = await desk.outrider.event_intake.emit(DEFAULT_SCOPE, QUOTE)
    assert not is_new


async def test_an_unknown_trigger_is_recorded_as_failed_when_it_is_routed(
    desk: Office, business: Business
) -> None:
    assert await business.sell(Emission("x-1", "quote_lost"))
    await desk.outrider.event_router.route_due()
    event, _ = await desk.outrider.event_intake.event(DEFAULT_SCOPE, "x-1")
    assert event.status == "failed"
    assert event.error is not None
    assert "'quote_lost' is not a known trigger" in event.error
    told = await desk.outrider.event_explainer.explain(DEFAULT_SCOPE, "x-1")
    assert any("is not a known trigger" in sentence for sentence in told)


async def test_the_row_is_the_one_that_the_kernel_would_have_written(
    desk: Office, business: Business
) -> None:
    earlier = datetime(2026, 3, 1, 9, 30, tzinfo=timezone(timedelta(hours=2)))
    told = ("quote_sent", {"lead": LEAD}, {"a": ["é", None]})
    await business.sell(Emission("theirs", *told, earlier))
    await desk.outrider.event_intake.emit(
        DEFAULT_SCOPE, Emission("ours", *told, earlier.astimezone(UTC))
    )
    async with raw_sql(desk.database) as raw:
        theirs, ours = await raw.run(f"SELECT {', '.join(COLUMNS)} FROM domain_events ORDER BY id")
        times = await raw.run("SELECT route_at, created_at, updated_at FROM domain_events")
    assert theirs == ours
    assert [len(set(row)) for row in times] == [1, 1]
    assert len({type(row[0]) for row in times}) == len({len(str(row[0])) for row in times}) == 1


async def test_without_a_transaction_it_is_refused(database: str) -> None:
    if database.startswith("sqlite"):
        path = database.removeprefix("sqlite:///")
        commits_each = sqlite3.connect(path, isolation_level=None)
        for connection in (apsw.Connection(path), commits_each):
            with pytest.raises(Conflict, match="no open transaction"):
                emit_in_sqlite(connection, QUOTE)
            connection.close()
        return
    theirs = await asyncpg.connect(database)
    with pytest.raises(Conflict, match="no open transaction"):
        await emit_in_postgres(theirs, QUOTE)
    await theirs.close()


async def test_a_postgres_connection_may_have_custom_codecs(database_pool: Any) -> None:
    url = await database_pool.take()
    connection = await asyncpg.connect(url)
    await connection.set_type_codec(
        "json", encoder=json.dumps, decoder=json.loads, schema="pg_catalog"
    )
    async with connection.transaction():
        assert await emit_in_postgres(connection, QUOTE)
        assert not await emit_in_postgres(connection, QUOTE)
        told = await connection.fetchval("SELECT variables FROM domain_events")
    assert told == QUOTE.variables
    await connection.close()
    await database_pool.give_back(url)


def test_pythons_own_sqlite3_opens_the_transaction_itself(
    sqlite_template: Path, tmp_path: Path
) -> None:
    file = tmp_path / "outrider.db"
    file.write_bytes(sqlite_template.read_bytes())
    connection = sqlite3.connect(file)
    connection.row_factory = sqlite3.Row
    assert emit_in_sqlite(connection, QUOTE)
    connection.rollback()
    assert emit_in_sqlite(connection, QUOTE)
    assert not emit_in_sqlite(connection, QUOTE)
    with pytest.raises(IdempotencyConflict):
        emit_in_sqlite(connection, OTHER)
    connection.commit()
    connection.close()
    seen = sqlite3.connect(file)
    assert seen.execute("SELECT event_id, status FROM domain_events").fetchall() == [
        ("q-17", "received")
    ]
    seen.close()


@pytest.mark.parametrize(
    ("emission", "path"),
    [
        (Emission("a\nb", "quote_sent"), "eventId"),
        (Emission("a", "Quote sent"), "trigger"),
        (Emission("a", "quote_sent", variables={"x": object()}), "variables"),
        (Emission("a", "quote_sent", variables={"x": "\x00"}), "variables"),
        (Emission("a", "quote_sent", occurred_at=datetime(2026, 1, 1)), "occurredAt"),
        (Emission("a", "quote_sent", occurred_at=NEVER), "occurredAt"),
    ],
)  # fmt: skip
def test_an_invalid_event_is_refused_before_anything_is_written(
    emission: Emission, path: str
) -> None:
    connection = sqlite3.connect(":memory:")
    with pytest.raises(InvalidInput) as refused:
        emit_in_sqlite(connection, emission)
    assert [problem.path for problem in refused.value.problems] == [path]
    assert not connection.in_transaction
    connection.close()


def test_both_databases_take_the_same_parameters() -> None:
    for name, (_, parameters) in transactional._POSTGRES.items():
        assert set(parameters) == set(to_positional(transactional._SQLITE[name].sql)[1])
