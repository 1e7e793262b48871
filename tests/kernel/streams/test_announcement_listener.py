"""Workers are woken: by their own process, by the database, by the time a job is due.

They look by themselves only once an hour here, so whatever they take they were woken for.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from outrider.bootstrap import Outrider
from outrider.domain.ids import DEFAULT_SCOPE
from outrider.domain.retry import RetrySchedule
from outrider.domain.states import Channel
from outrider.domain.workflows import EventStatus
from outrider.gateways.sandbox import Faults, Sandbox
from outrider.kernel.submissions.submission_manager import Submission
from outrider.kernel.transactions import domain_events
from outrider.kernel.transactions.submissions import Intent
from outrider.kernel.work.engine_notifier import EngineNotifier
from outrider.limits.kernel import Limits
from outrider.ports.engine import WorkKind
from outrider.ports.store import Announced, Result, Transaction, ask, ask_alone
from outrider.stores.postgres.store import PostgresStore
from outrider.testing.launches import launch, message, people, target, until_terminal
from outrider.testing.slow_store import script_name
from tests.kernel.work.test_engine_notifier import KnowingEngine
from tests.support.eventually import eventually, observed_for
from tests.support.raw_sql import raw_sql
from tests.support.whole_runs import opened, working

WAIT_SECONDS = 60
HOUR = 3_600.0
NEVER_LOOKS = Limits(
    idle_poll_seconds=HOUR, router_poll_seconds=HOUR, stalled_look_seconds=HOUR,
    store_backoff_seconds=0.05,
)  # fmt: skip
SMS = target("sms", "noop", "noop:")
POSTGRES = pytest.mark.parametrize("database", ["postgres"], indirect=True)


async def submit(outrider: Outrider, intent_id: str) -> None:
    payload = {"to": "+447700900123", "message": "Hello"}
    await outrider.submissions.submit(DEFAULT_SCOPE, Submission(intent_id, "sms", payload))


async def intent_of(outrider: Outrider, intent_id: str) -> Intent:
    intent, _ = await outrider.submissions.intent(DEFAULT_SCOPE, intent_id)
    return intent


async def accepted(outrider: Outrider, *intent_ids: str) -> None:
    async def are() -> bool:
        found = [await intent_of(outrider, each) for each in intent_ids]
        return all(intent.status == "ACCEPTED" for intent in found)

    await eventually(are)


async def listeners(database: str) -> list[int]:
    connection = await asyncpg.connect(database)
    try:
        rows = await connection.fetch(
            "SELECT pid FROM pg_stat_activity"
            " WHERE datname = current_database() AND application_name = 'outrider listener'"
        )
        return [row[0] for row in rows]
    finally:
        await connection.close()


@asynccontextmanager
async def settled(database: str, outrider: Outrider) -> AsyncIterator[None]:
    """A worker that has looked once, listens, and waits."""
    async with working(outrider):
        await submit(outrider, "first")
        await accepted(outrider, "first")
        if outrider.store.scheme == "postgresql":

            async def listens() -> bool:
                return bool(await listeners(database))

            await eventually(listens)
        yield


def counting(outrider: Outrider) -> Counter[str]:
    """How often each script is run from now on, by its name."""
    runs: Counter[str] = Counter()
    store = outrider.store
    read, write = store.read, store.write

    async def counted_read(transaction: Transaction[Result]) -> Result:
        runs[script_name(transaction)] += 1
        return await read(transaction)

    async def counted_write(transaction: Transaction[Result]) -> Result:
        runs[script_name(transaction)] += 1
        return await write(transaction)

    store.read = counted_read  # type: ignore[method-assign]
    store.write = counted_write  # type: ignore[method-assign]
    return runs


async def test_a_message_submitted_in_the_workers_process_does_not_wait_for_a_look(
    database: str, tmp_path: Path
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider,
        settled(database, outrider),
    ):
        for number in range(5):
            await submit(outrider, f"order-{number}")
            await accepted(outrider, f"order-{number}")


async def test_a_message_submitted_elsewhere_does_not_wait_for_a_look(
    database: str, tmp_path: Path
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider,
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as elsewhere,
        settled(database, outrider),
    ):
        for number in range(5):
            await submit(elsewhere, f"order-{number}")
            await accepted(elsewhere, f"order-{number}")


async def test_a_campaign_launched_elsewhere_does_not_wait_for_a_look(
    database: str, tmp_path: Path
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider,
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as elsewhere,
        settled(database, outrider),
    ):
        run_id = await launch(elsewhere, [message(Channel.SMS, "sms")], people(40), batch_size=5)
        accounting = await until_terminal(elsewhere, run_id, seconds=WAIT_SECONDS)
        assert accounting.sent == 40


async def test_an_event_emitted_elsewhere_does_not_wait_for_the_routers_look(
    database: str, tmp_path: Path
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider,
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as elsewhere,
        settled(database, outrider),
    ):
        await elsewhere.emit("lead_welcome", event_id="e")

        async def is_routed() -> bool:
            stored = await elsewhere.store.read(domain_events.event(DEFAULT_SCOPE, "e"))
            return stored.status != EventStatus.RECEIVED

        await eventually(is_routed)


async def test_of_two_workers_one_takes_each_message(database: str, tmp_path: Path) -> None:
    async with Sandbox() as sandbox, AsyncExitStack() as stack:
        entry = target("sms", "sms", sandbox.http_url)
        one, two, elsewhere = [
            await stack.enter_async_context(opened(database, tmp_path, entry, limits=NEVER_LOOKS))
            for _ in range(3)
        ]
        await stack.enter_async_context(settled(database, one))
        await stack.enter_async_context(working(two))
        names = [f"order-{number}" for number in range(20)]
        for name in names:
            await submit(elsewhere, name)
        await accepted(elsewhere, *names)
        assert sandbox.requests == len(names) + 1
        assert set(sandbox.deliveries.values()) == {1}


async def test_a_message_that_is_due_later_is_sent_when_it_is_due(
    database: str, tmp_path: Path
) -> None:
    async with Sandbox(Faults(fail_rate=1)) as sandbox:
        entry = target("sms", "sms", sandbox.http_url)
        async with (
            opened(database, tmp_path, entry, limits=NEVER_LOOKS) as outrider,
            working(outrider, retry=RetrySchedule(first_seconds=0.5)),
        ):
            await submit(outrider, "order")

            async def has_failed() -> bool:
                return (await intent_of(outrider, "order")).attempts > 0

            await eventually(has_failed)
            sandbox.change_faults({"failRate": 0})
            await accepted(outrider, "order")
            _, attempts = await outrider.submissions.intent(DEFAULT_SCOPE, "order")
            for earlier, later in pairwise(attempts):
                assert (later.opened_at - earlier.opened_at).total_seconds() >= 0.5


async def test_a_worker_without_notifications_still_finds_due_work(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=replace(NEVER_LOOKS, idle_poll_seconds=0.05)) as one,
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as elsewhere,
    ):

        async def silence(_: Announced) -> AsyncIterator[None]:
            return
            yield

        monkeypatch.setattr(one.store, "announcements", silence)
        async with working(one):
            await submit(elsewhere, "order")
            await accepted(elsewhere, "order")


@POSTGRES
async def test_a_worker_whose_listening_connection_is_killed_listens_again(
    database: str, tmp_path: Path
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider,
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as elsewhere,
        settled(database, outrider),
    ):
        (ear,) = await listeners(database)
        connection = await asyncpg.connect(database)
        assert await connection.fetchval("SELECT pg_terminate_backend($1)", ear)
        await connection.close()
        # Told to nobody, perhaps: the worker looks once it listens again.
        await submit(elsewhere, "in between")
        await accepted(elsewhere, "in between")

        async def listens_again() -> bool:
            return ear not in (heard := await listeners(database)) and bool(heard)

        await eventually(listens_again)
        await submit(elsewhere, "after")
        await accepted(elsewhere, "after")


@POSTGRES
async def test_a_process_has_one_connection_that_listens_and_closes_it_at_the_end(
    database: str, tmp_path: Path
) -> None:
    async with opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider:
        reading = asyncio.create_task(outrider.hub.run())
        async with settled(database, outrider):
            assert len(await listeners(database)) == 1
        reading.cancel()
        await asyncio.wait({reading})

    async def nobody_listens() -> bool:
        return not await listeners(database)

    await eventually(nobody_listens)


@POSTGRES
async def test_a_burst_of_messages_wakes_a_worker_a_few_times(
    database: str, tmp_path: Path
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider,
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as elsewhere,
        settled(database, outrider),
    ):
        runs = counting(outrider)
        names = [f"order-{number}" for number in range(1_000)]
        await asyncio.gather(*(submit(elsewhere, name) for name in names))
        await accepted(elsewhere, names[0], names[-1])

        async with raw_sql(database) as raw:

            async def all_are_sent() -> bool:
                return not await raw.run("SELECT 1 FROM channel_outbox WHERE status = 'queued'")

            await eventually(all_are_sent)
        assert runs["claim_lanes"] < 100


async def test_an_idle_worker_asks_the_database_a_few_times_a_second(
    database: str, tmp_path: Path
) -> None:
    """As it is set by default. However busy the machine is, it can only make these fewer.

    The watcher and the row that says it is alive are part of it.
    """
    seconds = 3
    async with (
        opened(database, tmp_path, SMS, limits=Limits()) as outrider,
        settled(database, outrider),
    ):
        runs = counting(outrider)
        await observed_for(seconds)
        assert runs.total() <= 20 * seconds, runs
        assert runs["claim_lanes"] <= 4, "nothing new was due"


async def test_a_herald_is_woken_by_a_message_that_somebody_submits(
    database: str, tmp_path: Path
) -> None:
    async with (
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as outrider,
        opened(database, tmp_path, SMS, limits=NEVER_LOOKS) as elsewhere,
    ):
        engine = KnowingEngine(outrider.foundation, knows=False)
        engine_notifier = EngineNotifier(replace(outrider.foundation, limits=NEVER_LOOKS), engine)
        looking = asyncio.create_task(engine_notifier.run())
        await submit(elsewhere, "order")

        async def is_told() -> bool:
            return any(each.work.kind is WorkKind.LANE for each in engine.asked)

        await eventually(is_told)
        looking.cancel()
        await asyncio.wait({looking})


@POSTGRES
async def test_a_statement_that_says_it_is_alone_has_to_be(database: str) -> None:
    def not_alone() -> Transaction[None]:
        yield from ask_alone("paused_targets")
        yield from ask("lock_holders")

    store = PostgresStore(database)
    with pytest.raises(AssertionError, match="paused_targets was not alone: lock_holders"):
        await store.read(not_alone())
    await store.close()
