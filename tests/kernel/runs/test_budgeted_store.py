"""The write budget on a store that is slow on purpose: what fails open, what fails its step."""

import asyncio
import re
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest
from pydantic import ValidationError

from outrider.bootstrap import Outrider, open_outrider
from outrider.domain.errors import StoreUnavailable
from outrider.domain.run_events import RunEventType
from outrider.domain.write_budget import WriteBudget
from outrider.gateways.sandbox import Sandbox
from outrider.kernel.runs.budgeted_store import BudgetedStore, BudgetExceeded
from outrider.kernel.transactions import paging, run_jobs
from outrider.kernel.work.background_loops import BackgroundLoops
from outrider.ports.store import Transaction, ask
from outrider.settings import Settings, StateStoreSettings
from outrider.stores.postgres import store as postgres
from outrider.stores.postgres.store import PostgresStore
from outrider.testing.launches import registry, target
from outrider.testing.postgres import create_database, drop_database
from outrider.testing.slow_store import SlowStore
from outrider.testing.store_suite.workshop import ONE, Workshop
from tests.support.controls import PATIENCE_SECONDS, begun, created, until, until_ended
from tests.support.eventually import eventually
from tests.support.run_logs import check_against_log, events_of, types_of
from tests.support.whole_runs import IMPATIENT, working

BUDGET_MS = 150


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    async with Sandbox() as sandbox:
        yield sandbox


@asynccontextmanager
async def budgeted(
    database: str, folder: Path, sandbox: Sandbox, **state_store: object
) -> AsyncIterator[tuple[Outrider, SlowStore]]:
    path = folder / "registry.json"
    path.write_bytes(registry(target("sms.all", "sms", sandbox.http_url)))
    given = {"writeLatencyBudgetMs": BUDGET_MS, **state_store}
    settings = Settings(
        database_url=database,
        registry=path,
        artifacts=folder / "artifacts",
        spool=folder / "spool",
        state_store=StateStoreSettings.model_validate(given),
    )
    async with open_outrider(settings, limits=IMPATIENT) as outrider:
        await outrider.store.migrate()
        slow = SlowStore(outrider.store)
        outrider.store = slow
        yield outrider, slow


def spooled(folder: Path) -> list[Path]:
    return sorted((folder / "spool").glob("*.json")) if (folder / "spool").exists() else []


async def test_step_started_fails_open_to_the_spool_and_is_reconciled(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with budgeted(database, tmp_path, sandbox) as (outrider, slow):
        slow.delays = {"append_of_runs": 60.0}
        campaign_id = await created(outrider, 20)
        run_id = await begun(outrider, campaign_id)
        async with working(outrider):
            accounting = await until_ended(outrider, run_id)
            assert accounting.sent == 20
        assert "append_of_runs" in slow.delayed
        told = await outrider.step_recorder(ONE).reconcile_once()
        types = await types_of(outrider, run_id)
        assert types.count("StepStarted") == 2
        assert types.count("StepCompleted") == 2
        assert told + types.index("RunCompleted") >= 2
        assert spooled(tmp_path) == []
        (snapshot,) = await check_against_log(outrider, campaign_id)
        assert {step.status for step in snapshot.steps.values()} == {"SUCCESS"}
        assert all(step.started_at for step in snapshot.steps.values())
        assert await outrider.step_recorder(ONE).reconcile_once() == 0


async def test_the_spool_outlives_the_process_that_wrote_it(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with budgeted(database, tmp_path, sandbox) as (outrider, slow):
        run_id = await begun(outrider, await created(outrider, 10))
        (job,) = await Workshop(outrider.store).claim(ONE, now=outrider.clock.now())
        slow.delays = {"append_of_runs": 60.0}
        await outrider.step_recorder(ONE).started([job])
        assert len(spooled(tmp_path)) == 1
        before = outrider.clock.now()
    async with budgeted(database, tmp_path, sandbox) as (another, _):
        assert await another.step_recorder(ONE).reconcile_once() == 1
        event = (await events_of(another, run_id))[-1]
        assert (event.type, event.step_id, event.engine_attempt) == ("StepStarted", job.id, 1)
        assert event.occurred_at <= before, "it says when it happened, not when it was written"


async def test_step_completed_never_fails_open_it_fails_the_step(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with budgeted(database, tmp_path, sandbox) as (outrider, slow):
        slow.delays = {"settle_job": 60.0}
        campaign_id = await created(outrider, 10)
        run_id = await begun(outrider, campaign_id)
        async with working(outrider):
            async with asyncio.timeout(60):
                while True:
                    (job,) = await outrider.store.read(run_jobs.jobs_page(run_id, paging.FIRST, 10))
                    if job.attempts:
                        break
                    await asyncio.sleep(0.02)
            assert "BudgetExceeded" in (job.last_error or "")
            assert "StepCompleted" not in await types_of(outrider, run_id)
            slow.delays = {}
            accounting = await until_ended(outrider, run_id)
        assert accounting.sent == 10
        assert sandbox.requests == 10, "what is in the ledger is not sent again"
        assert spooled(tmp_path) == []
        (snapshot,) = await check_against_log(outrider, campaign_id)
        (step,) = snapshot.steps.values()
        assert step.engine_attempt is not None
        assert step.engine_attempt > 1
        assert step.logical_attempt == 1


async def test_without_fail_open_a_step_that_cannot_log_its_start_fails(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with budgeted(database, tmp_path, sandbox, failOpenForEventClass=[]) as (outrider, slow):
        slow.delays = {"append_of_runs": 60.0}
        run_id = await begun(outrider, await created(outrider, 10))
        async with working(outrider):
            await until(lambda: slow.delayed.count("append_of_runs") >= 2)
            assert sandbox.requests == 0
            slow.delays = {}
            await until_ended(outrider, run_id)
        assert spooled(tmp_path) == []
        assert (await types_of(outrider, run_id)).count("StepStarted") == 1


async def test_a_locked_row_of_a_real_postgres_is_a_slow_store_too(
    postgres_url: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    """Somebody holds the run's row: steps begin, are sent, and wait only to be completed."""
    url = await create_database(postgres_url)
    async with budgeted(url, tmp_path, sandbox) as (outrider, _):
        sandbox.change_faults({"latencyMs": 200})
        campaign_id = await created(outrider, 100)
        run_id = await begun(outrider, campaign_id)
        locker = await asyncpg.connect(url)
        async with working(outrider):
            await until(lambda: sandbox.requests > 0)
            sandbox.change_faults({"latencyMs": 0})
            async with locker.transaction():
                await locker.execute("SELECT 1 FROM campaign_runs FOR UPDATE")
                await until(lambda: bool(spooled(tmp_path)))
                seen = sandbox.requests
                await until(lambda: sandbox.requests > seen)
            await until_ended(outrider, run_id)
        await outrider.step_recorder(ONE).reconcile_once()
        assert spooled(tmp_path) == []
        await locker.close()
        assert sandbox.requests == 100
        await check_against_log(outrider, campaign_id)
    await drop_database(postgres_url, url)


@asynccontextmanager
async def line_to(url: str, swallowing: asyncio.Event) -> AsyncIterator[PostgresStore]:
    """A store behind a line that may swallow what passes, and never tells that it was hung up."""
    name, folder = re.findall(r"/([^/?]+)\?host=(.*)$", url)[0]

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65_536):
            if swallowing.is_set():
                continue
            sink.write(data)
            await sink.drain()

    async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")
        await asyncio.gather(pump(reader, to_there), pump(there, writer), return_exceptions=True)
        to_there.close()

    line = await asyncio.start_server(between, "127.0.0.1", 0)
    port = line.sockets[0].getsockname()[1]
    store = PostgresStore(f"postgresql://postgres:@127.0.0.1:{port}/{name}?sslmode=disable")
    await store.migrate()
    yield store
    assert store._pool is not None
    store._pool.terminate()
    line.close()


async def test_a_line_that_swallows_everything_is_given_up_in_time(
    postgres_url: str,
) -> None:
    """Neither an answer nor an end: to clean up such a connection takes a driver minutes."""

    begun = asyncio.Event()

    def long() -> Transaction[None]:
        while True:
            yield from ask("lock_holders")
            begun.set()

    url = await create_database(postgres_url)
    swallowing = asyncio.Event()
    async with line_to(url, swallowing) as store:
        writing = asyncio.create_task(BudgetedStore(store, WriteBudget(BUDGET_MS)).write(long()))
        await begun.wait()
        swallowing.set()
        with pytest.raises(BudgetExceeded):
            async with asyncio.timeout(30):
                await writing
    await drop_database(postgres_url, url)


async def test_a_database_session_terminated_while_idle_counts_as_an_unavailable_store(
    postgres_url: str,
) -> None:
    """The server's farewell has arrived and the end of the line has not: asyncpg is confused."""

    def once() -> Transaction[None]:
        yield from ask("lock_holders")

    url = await create_database(postgres_url)
    async with line_to(url, asyncio.Event()) as store:
        await store.write(once())
        await read_only(url, "off")
        await asyncio.sleep(0.2)
        with pytest.raises(StoreUnavailable):
            await store.write(once())
        await store.write(once())
    await drop_database(postgres_url, url)


async def test_a_process_that_freezes_inside_a_transaction_keeps_no_row_locked(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database ends its session, and with it the transaction and its locks."""
    monkeypatch.setattr(postgres, "POSTGRES_IDLE_SECONDS", 1)
    url = await create_database(postgres_url)
    store = PostgresStore(url)
    await store.migrate()

    def frozen() -> Transaction[None]:
        yield from ask("lock_holders")
        # In a thread, because this one is to stand still, and its loop with it.
        with ThreadPoolExecutor(1) as executor:
            executor.submit(asyncio.run, until_nothing_is_open(url)).result()
        yield from ask("lock_holders")

    with pytest.raises(StoreUnavailable):
        await store.write(frozen())
    await store.close()
    await drop_database(postgres_url, url)


async def test_a_spool_that_cannot_be_written_holds_up_no_step(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with budgeted(database, tmp_path, sandbox) as (outrider, slow):
        (tmp_path / "spool").write_text("no folder")
        slow.delays = {"append_of_runs": 60.0}
        campaign_id = await created(outrider, 10)
        run_id = await begun(outrider, campaign_id)
        async with working(outrider):
            accounting = await until_ended(outrider, run_id)
        assert accounting.sent == 10
        types = await types_of(outrider, run_id)
        assert types.count("StepStarted") == 0
        assert types.count("StepCompleted") == 1
        await check_against_log(outrider, campaign_id)


async def test_an_error_in_a_background_loop_ends_no_worker(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with budgeted(database, tmp_path, sandbox) as (outrider, _):
        failures = 0

        async def broken() -> None:
            nonlocal failures
            failures += 1
            raise TypeError("a bug")

        outrider.limits = replace(IMPATIENT, housekeeper_restart_seconds=0.05)
        outrider.__dict__["background_loops"] = BackgroundLoops(
            {"broken": broken}, outrider.clock, outrider.limits
        )
        run_id = await begun(outrider, await created(outrider, 10))
        async with working(outrider):
            await until(lambda: failures >= 3)
            assert (await until_ended(outrider, run_id)).sent == 10


async def test_a_store_that_only_reads_for_a_while_loses_nothing_of_the_spool(
    postgres_url: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    url = await create_database(postgres_url)
    async with budgeted(url, tmp_path, sandbox) as (outrider, slow):
        run_id = await begun(outrider, await created(outrider, 10))
        (job,) = await Workshop(outrider.store).claim(ONE, now=outrider.clock.now())
        slow.delays = {"append_of_runs": 60.0}
        await outrider.step_recorder(ONE).started([job])
        await read_only(url, "on")
        for _ in range(10):
            # At first because the line was cut, then because nothing can be written.
            with pytest.raises(StoreUnavailable):
                await outrider.step_recorder(ONE).reconcile_once()
        assert len(spooled(tmp_path)) == 1
        await read_only(url, "off")
        await until_told(outrider)
        assert (await types_of(outrider, run_id))[-1] == "StepStarted"
    await drop_database(postgres_url, url)


async def until_nothing_is_open(url: str) -> None:
    """Until no session of this database is within a transaction and does nothing there."""
    connection = await asyncpg.connect(url)

    async def is_so() -> bool:
        return not await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND state = 'idle in transaction'"
        )

    await eventually(is_so, seconds=PATIENCE_SECONDS)
    await connection.close()


async def read_only(url: str, how: str) -> None:
    """As a failover leaves it: connections are dropped, and the next ones only read."""
    name = re.findall(r"/([^/?]+)\?", url)[0]
    connection = await asyncpg.connect(url)
    await connection.execute("SET default_transaction_read_only = off")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = {how}')
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()


async def until_told(outrider: Outrider) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                if await outrider.step_recorder(ONE).reconcile_once():
                    return
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_an_entry_of_the_spool_that_is_no_event_is_set_aside(
    database: str, tmp_path: Path, sandbox: Sandbox
) -> None:
    async with budgeted(database, tmp_path, sandbox) as (outrider, _):
        (tmp_path / "spool").mkdir()
        (tmp_path / "spool" / "junk.json").write_text("{")
        (tmp_path / "spool" / "odd.json").write_text(
            '{"run_id": "x", "plan_version": "1", "events": [{"type": "StepStarted"}]}'
        )
        unknown = outrider.ids.new()
        (tmp_path / "spool" / "orphan.json").write_text(
            f'{{"run_id": "{unknown}", "plan_version": "1", "events": []}}'
        )
        await outrider.step_recorder(ONE).reconcile_once()
        assert spooled(tmp_path) == []
        kept = {path.name for path in (tmp_path / "spool").iterdir()}
        assert kept == {"junk.bad", "odd.bad", "orphan.bad"}


def test_the_budget_is_set_in_the_contracts_own_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("outrider.toml").write_text(
        "[state_store]\nwriteLatencyBudgetMs = 1500\n"
        'failOpenForEventClass = ["StepStarted"]\nneverFailOpen = ["StepCompleted", "StepFailed"]\n'
    )
    budget = Settings().state_store.budget()
    assert budget.milliseconds == 1500
    assert budget.fails_open(RunEventType.STEP_STARTED)
    assert not budget.fails_open(RunEventType.STEP_COMPLETED)
    default = StateStoreSettings().budget()
    assert default.milliseconds == 3000
    assert default.fail_open == {RunEventType.STEP_STARTED}
    assert default.never_fail_open == {RunEventType.STEP_COMPLETED, RunEventType.STEP_FAILED}


@pytest.mark.parametrize(
    "given",
    [
        {"failOpenForEventClass": ["StepCompleted"]},
        {"neverFailOpen": ["StepStarted"]},
        {"failOpenForEventClass": ["NoSuchEvent"]},
        {"writeLatencyBudgetMs": 0},
        {"writeLatencyBudget": 1},
    ],
)
def test_a_budget_that_would_lose_outcomes_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        StateStoreSettings.model_validate(given)
