"""Both databases pass the public suite of event logs; a killed appender leaves a whole log."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pytest

from outrider.bootstrap import make_store
from outrider.domain.campaigns import LAUNCH
from outrider.domain.errors import StoreUnavailable
from outrider.domain.ids import DEFAULT_SCOPE, RunId
from outrider.domain.run_events import RunEvent
from outrider.kernel.runs.run_log_store import StoreEventLog
from outrider.kernel.transactions import run_log
from outrider.ports.event_log import Appended, EventDraft, EventLog
from outrider.ports.store import Store, Transaction, ask
from outrider.testing import event_log_suite as suite
from outrider.testing.event_log_suite import EventLogBench, EventLogConformance, Refused, Tampering
from outrider.testing.store_suite.workshop import Workshop
from tests.support.raw_sql import Raw, raw_sql
from tests.support.raw_sql import Refused as RefusedSql

KILLS = 3
CHILD = """
import asyncio, sys
from outrider.bootstrap import make_store
from outrider.domain.ids import RunId
from outrider.kernel.runs.run_log_store import StoreEventLog
from outrider.testing.event_log_suite import NOON, PLAN, steps

async def main(url, run_id, first):
    log = StoreEventLog(make_store(url))
    for number in range(first, first + 100_000):
        await log.append(RunId(run_id), PLAN, steps(3 * number, 3), NOON)
        print(number, flush=True)

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@dataclass(frozen=True, slots=True)
class BreaksBeforeCommit:
    """The script is run and its line lost before the commit: the real store rolls it back."""

    store: Store

    async def append(
        self, run_id: RunId, plan_version: str, drafts: Sequence[EventDraft], now: datetime
    ) -> Sequence[Appended]:
        def script() -> Transaction[list[Appended]]:
            assert (yield from run_log.append(run_id, plan_version, drafts, now))
            raise StoreUnavailable("the line is lost")

        return await self.store.write(script())

    async def events_after(self, run_id: RunId, after: int, most: int) -> Sequence[RunEvent]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class BreaksAfterCommit:
    """All is written, and the answer never arrives."""

    log: EventLog

    async def append(
        self, run_id: RunId, plan_version: str, drafts: Sequence[EventDraft], now: datetime
    ) -> Sequence[Appended]:
        assert await self.log.append(run_id, plan_version, drafts, now)
        raise StoreUnavailable("the line is lost")

    async def events_after(self, run_id: RunId, after: int, most: int) -> Sequence[RunEvent]:
        return await self.log.events_after(run_id, after, most)


@pytest.fixture
async def stores(database: str) -> AsyncIterator[list[Store]]:
    made = [make_store(database) for _ in range(2)]
    await made[0].migrate()
    yield made
    for store in made:
        await store.close()


async def quiet_run(store: Store) -> RunId:
    """A run that nobody told anything about."""
    workshop = Workshop(store)
    campaign_id, run_id = await workshop.campaign(1), RunId(workshop.ids.new())
    await store.write(
        ask(
            "insert_run",
            **DEFAULT_SCOPE._asdict(),
            id=run_id,
            campaign_id=campaign_id,
            phase=LAUNCH,
            channel="sms",
            intended=1,
            scheduled_for=suite.NOON,
            retry_of=None,
            plan_version=suite.PLAN,
            approved_at=None,
            local_launch=None,
            now=suite.NOON,
        )
    )
    return run_id


def tampering_sql(raw: Raw, tampering: Tampering, event: RunEvent) -> str:
    where = f"run_id = '{event.run_id}' AND run_seq = {event.run_seq}"
    columns = (
        "type, emitter, step_id, logical_attempt, engine_attempt, plan_version, signal_id, "
        "payload, occurred_at"
    )
    match tampering:
        case Tampering.REWRITE:
            return f"UPDATE run_events SET payload = '{{}}' WHERE {where}"
        case Tampering.ERASE:
            return f"DELETE FROM run_events WHERE {where}"
        case Tampering.SAME_SEQUENCE:
            return (
                f"INSERT INTO run_events (run_id, run_seq, idempotency_key, {columns}) "
                f"SELECT run_id, run_seq, {raw.blob(bytes(32))}, {columns} "
                f"FROM run_events WHERE {where}"
            )
        case Tampering.SAME_KEY:
            return (
                f"INSERT INTO run_events (run_id, run_seq, idempotency_key, {columns}) "
                f"SELECT run_id, run_seq + 1000, idempotency_key, {columns} "
                f"FROM run_events WHERE {where}"
            )


@pytest.fixture
async def bench(database: str, stores: list[Store]) -> AsyncIterator[EventLogBench]:
    here, there = (StoreEventLog(store) for store in stores)
    async with raw_sql(database) as raw:

        async def tamper(tampering: Tampering, event: RunEvent) -> None:
            try:
                await raw.run(tampering_sql(raw, tampering, event))
            except RefusedSql as error:
                raise Refused from error

        yield EventLogBench(
            here,
            there,
            BreaksBeforeCommit(stores[0]),
            BreaksAfterCommit(there),
            lambda: quiet_run(stores[0]),
            tamper,
        )


class TestDatabases(EventLogConformance):
    """Collected once for each store, through the `database` fixture of tests/conftest.py."""


async def test_an_appender_killed_at_any_time_leaves_whole_appends_and_is_caught_up_once(
    database: str, stores: list[Store]
) -> None:
    log = StoreEventLog(stores[0])
    run_id = await quiet_run(stores[0])
    first = 0
    for kill in range(KILLS):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CHILD, database, run_id, str(first),
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout is not None
        for _ in range(3 + 7 * kill):
            last = int(await child.stdout.readline())
        child.kill()
        rest, _ = await child.communicate()
        last = max([last, *map(int, rest.split())])
        # What was under way when it died is told again: it is there once, whole.
        await log.append(run_id, suite.PLAN, suite.steps(3 * (last + 1), 3), suite.NOON)
        first = last + 2
    events = await log.events_after(run_id, 0, 1_000_000)
    assert [event.step_id for event in events] == [f"job-{number}" for number in range(3 * first)]
    sequences = [event.run_seq for event in events]
    assert sequences == sorted(set(sequences))
