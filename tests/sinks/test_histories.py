"""Histories in DuckDB, in Postgres, and on fakesnow: each event once, whatever happens.

fakesnow is Snowflake's SQL on DuckDB; `docs/howto/history.md` says where it differs from Snowflake.
"""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest

from outrider.domain.errors import HistoryError, HistoryRefused, HistoryUnavailable
from outrider.domain.history_urls import SnowflakeTables
from outrider.domain.ids import RunId
from outrider.domain.run_events import RunEvent
from outrider.limits import history as limits
from outrider.ports.history import EventKey, History, HistoryEvent, HistorySnapshot, RunContext
from outrider.sinks.history.snowflake import SnowflakeHistory
from outrider.sinks.history.tables import TableForm, tables_as
from tests.support.histories import KINDS, Fuse, HistoryPlace, fake_account, place_of

pytestmark = pytest.mark.filterwarnings("ignore:Arrow output on a DB-API result:UserWarning")

NOON = datetime(2026, 3, 1, 12, 0, 0, 123_456, tzinfo=UTC)
CONTEXT = RunContext("t", "acme", "w", "shop", "live", "c", 'Spring\'s "sale"', "launch", "sms", 9)
RUNS = [RunId(f"0199aaaa-0000-7000-8000-00000000000{number}") for number in range(3)]
LAST = RunId("ffffffff-ffff-7fff-bfff-ffffffffffff")
STATEMENTS_OF_A_WINDOW = 9
"""BEGIN, the turn, for both tables: stage, merge, clear; COMMIT."""


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HistoryPlace]:
    server: Callable[[], str] = lambda: request.getfixturevalue("postgres_url")  # noqa: E731
    async with place_of(request.param, tmp_path, server) as made:
        yield made


def event(run_id: RunId, run_seq: int, **payload: object) -> RunEvent:
    return RunEvent(
        run_id, run_seq, "StepCompleted", NOON + timedelta(seconds=run_seq), f"step-{run_seq}",
        1, None if run_seq % 2 else run_seq, payload or {"n": 1.5, "text": "ä\u2028'%s\\ \x00"},
        "activity", "1", f"{run_seq:064x}", "1.1",
    )  # fmt: skip


def events_of(run_id: RunId, numbers: Sequence[int]) -> list[HistoryEvent]:
    return [HistoryEvent(event(run_id, number), CONTEXT) for number in numbers]


def snapshot(run_id: RunId, run_seq: int) -> HistorySnapshot:
    return HistorySnapshot(
        run_id, run_seq, "RUNNING", NOON, NOON, None, 3, 1, '{"status": "RUNNING"}', CONTEXT
    )


async def kept(history: History) -> list[RunEvent]:
    return list(await history.events_after(EventKey(RunId(""), 0), LAST, 100_000))


async def snapshots_in(place: HistoryPlace) -> int:
    """Counted by the database itself, through a connection of its own."""
    history: Any = place.open()
    if place.kind == "postgresql":
        async with history._connected() as connection:
            found: int = await connection.fetchval("SELECT count(*) FROM run_snapshots")
            return found
    sql = "SELECT count(*) FROM run_snapshots"

    def ask(connection: Any) -> int:
        if place.kind == "duckdb":
            return int(connection.execute(sql).fetchall()[0][0])
        return int(history._execute(connection, sql)[0][0])

    return int(await history._in_thread(ask))


async def test_written_values_are_read_back_unchanged(place: HistoryPlace) -> None:
    history = place.open()
    written = events_of(RUNS[0], [1, 2, 3])
    await history.merge(written, [snapshot(RUNS[0], 1)])
    assert await kept(history) == [each.event for each in written]


async def test_times_of_other_zones_are_the_same_instants(place: HistoryPlace) -> None:
    history = place.open()
    elsewhere = NOON.astimezone(timezone(timedelta(hours=-7)))
    there = RunEvent(RUNS[0], 1, "RunStarted", elsewhere, idempotency_key="00")
    await history.merge([HistoryEvent(there, CONTEXT)], [])
    (found,) = await kept(history)
    assert found.occurred_at == NOON


async def test_an_event_that_is_there_already_stays_as_it_was(place: HistoryPlace) -> None:
    history = place.open()
    await history.merge(events_of(RUNS[0], [1, 2]), [snapshot(RUNS[0], 1)])
    forged = HistoryEvent(event(RUNS[0], 2, forged=True), CONTEXT)
    repeated = [*events_of(RUNS[0], [1, 3, 3]), forged]
    await history.merge(repeated, [snapshot(RUNS[0], 1), snapshot(RUNS[0], 1)])
    assert await kept(history) == [event(RUNS[0], number) for number in (1, 2, 3)]
    assert await snapshots_in(place) == 1


async def test_a_writer_killed_at_any_statement_leaves_each_event_once(place: HistoryPlace) -> None:
    """Before each of its statements, and after the last, where only the answer is lost."""
    await place.open().set_up()
    for statement in range(STATEMENTS_OF_A_WINDOW + 1):
        is_written = statement == STATEMENTS_OF_A_WINDOW
        number = statement + 1
        window = events_of(RUNS[0], [number]), [snapshot(RUNS[0], number)]
        fuse = Fuse(statement - is_written, after=is_written)
        dying: Any = place.open(fuse)
        dying._has_tables = True
        with pytest.raises(HistoryUnavailable):
            await dying.merge(*window)
        assert fuse.blown
        survivor = place.open()
        assert len(await kept(survivor)) == statement + is_written
        await survivor.merge(*window)
    everything = range(1, STATEMENTS_OF_A_WINDOW + 2)
    assert await kept(survivor) == [event(RUNS[0], number) for number in everything]
    assert await snapshots_in(place) == len(everything)


async def test_windows_in_any_order_and_side_by_side_leave_each_event_once(
    place: HistoryPlace,
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    everything = [each for run_id in RUNS for each in events_of(run_id, range(1, 13))]
    windows = [everything[first : first + 9] for first in range(0, len(everything), 5)]
    windows += chance.sample(windows, 3)
    chance.shuffle(windows)
    await place.open().set_up()
    writers = [place.open() for _ in range(2)]

    async def write(history: History, mine: Sequence[list[HistoryEvent]]) -> None:
        for window in mine:
            while True:
                # DuckDB lets one process have its file open, and fakesnow one writer at a time:
                # told to try again, a relay does.
                with suppress(HistoryUnavailable):
                    await history.merge(window, [])
                    break

    async with asyncio.timeout(60):
        await asyncio.gather(*(write(each, windows[n::2]) for n, each in enumerate(writers)))
    assert await kept(writers[0]) == [each.event for each in everything]


async def test_runs_are_counted(place: HistoryPlace) -> None:
    history = place.open()
    await history.merge([*events_of(RUNS[0], [1, 2]), *events_of(RUNS[2], [5])], [])
    assert dict(await history.counts(RUNS)) == {RUNS[0]: 2, RUNS[2]: 1}


async def test_reading_continues_behind_a_place(place: HistoryPlace) -> None:
    history = place.open()
    await history.merge([*events_of(RUNS[0], [1, 2, 3]), *events_of(RUNS[1], [1])], [])
    found = await history.events_after(EventKey(RUNS[0], 1), RUNS[1], 2)
    assert [(each.run_id, each.run_seq) for each in found] == [(RUNS[0], 2), (RUNS[0], 3)]
    assert not await history.events_after(EventKey(RUNS[0], 3), RUNS[0], 2)


async def test_setting_up_again_changes_nothing(place: HistoryPlace) -> None:
    history = place.open()
    await history.merge(events_of(RUNS[0], [1]), [])
    await history.set_up()
    assert len(await kept(history)) == 1


async def test_a_value_that_the_database_refuses_is_not_called_an_outage(
    place: HistoryPlace,
) -> None:
    history = place.open()
    await history.set_up()
    too_large = replace(event(RUNS[0], 1), run_seq=2**70)
    with pytest.raises((HistoryRefused, OverflowError)):
        await history.merge([HistoryEvent(too_large, CONTEXT)], [])
    await history.merge(events_of(RUNS[0], [1]), [])
    assert len(await kept(history)) == 1


async def test_a_file_that_somebody_has_open_is_waited_for_and_then_postponed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "history.duckdb"
    holding = await asyncio.create_subprocess_exec(
        sys.executable, "-c",
        f"import duckdb; held = duckdb.connect({str(file)!r}); print(1, flush=True); input()",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert holding.stdin is not None
    assert holding.stdout is not None
    assert await holding.stdout.readline() == b"1\n"
    monkeypatch.setattr("outrider.sinks.history.duckdb.HISTORY_LOCK_SECONDS", 0.05)
    place = HistoryPlace("duckdb", f"duckdb:///{file}")
    with pytest.raises(HistoryUnavailable, match="cannot be opened") as refused:
        await place.open().merge(events_of(RUNS[0], [1]), [])
    assert refused.value.hint == "one process at a time can have it open"
    monkeypatch.undo()
    writing = asyncio.create_task(place.open().merge(events_of(RUNS[0], [1]), []))
    holding.stdin.close()
    await holding.wait()
    await writing
    assert len(await kept(place.open())) == 1
    await place.close()


class Recorded:
    """A connection that notes what is executed; hybrid tables are made as standard ones."""

    def __init__(self, connection: Any, executed: list[str]) -> None:
        self._connection = connection
        self._executed = executed

    def cursor(self) -> Any:
        cursor, executed = self._connection.cursor(), self._executed

        class Noting:
            def execute(self, sql: str, parameters: Any = None) -> None:
                executed.append(sql)
                cursor.execute(sql.replace("CREATE HYBRID TABLE", "CREATE TABLE"), parameters)

            def __getattr__(self, name: str) -> Any:
                return getattr(cursor, name)

        return Noting()

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize(
    ("tables", "has_hybrid", "made"),
    [
        (SnowflakeTables.AUTO, True, "hybrid"),
        (SnowflakeTables.AUTO, False, "standard"),
        (SnowflakeTables.STANDARD, True, "standard"),
        (SnowflakeTables.HYBRID, False, None),
    ],
)
async def test_hybrid_tables_are_made_where_the_account_has_them(
    tables: SnowflakeTables, has_hybrid: bool, made: str | None
) -> None:
    """fakesnow has none, like some accounts; an account with them is one that takes the words."""
    executed: list[str] = []
    with fake_account() as account:

        def connect() -> Any:
            connection = account.connect()
            return Recorded(connection, executed) if has_hybrid else connection

        history = SnowflakeHistory(connect, tables)
        if made is None:
            with pytest.raises(HistoryError):
                await history.set_up()
        else:
            await history.merge(events_of(RUNS[0], [1]), [])
            assert len(await kept(history)) == 1
        await history.close()
    hybrid = [sql for sql in executed if "CREATE HYBRID TABLE" in sql]
    assert len(hybrid) == (3 if made == "hybrid" else 0)


async def test_a_writer_without_the_right_to_make_tables_finds_them_made() -> None:
    executed: list[str] = []
    with fake_account() as account:

        def connect() -> Any:
            return Recorded(account.connect(), executed)

        first = SnowflakeHistory(connect, SnowflakeTables.STANDARD)
        await first.set_up()
        executed.clear()
        second = SnowflakeHistory(connect, SnowflakeTables.STANDARD)
        await second.merge(events_of(RUNS[0], [1]), [])
        assert not [sql for sql in executed if "CREATE" in sql]
        await first.close()
        await second.close()


async def test_a_window_longer_than_a_statement_may_be_is_still_one_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("outrider.sinks.history.snowflake.HISTORY_STATEMENT_ROWS", 4)
    executed: list[str] = []
    with fake_account() as account:

        def connect() -> Any:
            return Recorded(account.connect(), executed)

        history = SnowflakeHistory(connect, SnowflakeTables.STANDARD)
        await history.set_up()
        executed.clear()
        await history.merge(events_of(RUNS[0], range(1, 11)), [])
        assert len(await kept(history)) == 10
        await history.close()
    assert sum(sql.startswith("INSERT") for sql in executed) == 3
    assert executed.count("BEGIN") == executed.count("COMMIT") == 1


async def test_an_account_that_cannot_be_reached_is_away_and_a_bug_is_a_bug() -> None:
    def refuse() -> Any:
        raise ConnectionRefusedError("nobody there")

    away = SnowflakeHistory(refuse)
    with pytest.raises(HistoryUnavailable, match="nobody there"):
        await away.reach()
    await away.close()

    def broken() -> Any:
        raise ZeroDivisionError

    wrong = SnowflakeHistory(broken)
    with pytest.raises(ZeroDivisionError):
        await wrong.reach()
    await wrong.close()


def test_each_form_of_the_tables_has_its_own_clauses() -> None:
    plain, standard, hybrid = (" ".join(tables_as(form)) for form in get_args(TableForm))
    assert "TRANSIENT" not in plain
    assert "version bigint NOT NULL PRIMARY KEY," in plain
    assert "CLUSTER BY" in standard
    assert "HYBRID" not in plain + standard
    assert hybrid.count("CREATE HYBRID TABLE") == 3
    assert "{" not in plain + standard + hybrid


def test_limits_keep_a_statement_below_what_snowflake_takes() -> None:
    assert limits.HISTORY_SNAPSHOT_MAX_BYTES < limits.HISTORY_STATEMENT_BYTES < 1_000_000
